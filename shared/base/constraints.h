#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace edgedraft {

// Bounds of what is taken from strangers.
inline constexpr std::size_t kStopsMax = 16;
inline constexpr std::size_t kStopBytesMax = 256;
inline constexpr std::size_t kBiasesMax = 1024;
inline constexpr float kBiasMax = 1000.0f;  // of a bias or penalty, either way
inline constexpr std::size_t kGrammarBytesMax = 64u << 10;

// What an answer has to keep to, besides how its tokens are drawn. All of it is a function of the
// answer's tokens so far, so an answer is the same whoever drafts for it.
struct Constraints {
  struct Bias {
    std::uint32_t token;
    float bias;  // is added to its logit
    bool operator==(const Bias&) const = default;
  };

  // Where the answer begins, in tokens of the conversation: nothing before it counts.
  std::uint32_t answer_begin = 0;
  // Each ends the answer where it is complete.
  std::vector<std::string> stops{};
  std::vector<Bias> biases{};
  // Subtracted from the logits of tokens that the answer holds: once, and per occurrence.
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  // The language of the answer's text (docs/protocol.md, "Grammars"); empty: any text.
  std::string grammar{};

  bool empty() const {
    return stops.empty() && biases.empty() && presence_penalty == 0.0f &&
           frequency_penalty == 0.0f && grammar.empty();
  }
  bool operator==(const Constraints&) const = default;
};

}  // namespace edgedraft
