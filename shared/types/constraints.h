#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace edgedraft {

// Limits for input from untrusted clients.
inline constexpr std::size_t kStopsMax = 16;
inline constexpr std::size_t kStopBytesMax = 256;
inline constexpr std::size_t kBiasesMax = 1024;
inline constexpr float kBiasMax = 1000.0f;  // limit on the magnitude of a bias or penalty
inline constexpr std::size_t kGrammarBytesMax = 64u << 10;

// Constraints on an answer, besides sampling. They depend only on the answer's tokens so far, so an
// answer is the same with any drafter.
struct Constraints {
  struct Bias {
    std::uint32_t token;
    float bias;  // added to its logit
    bool operator==(const Bias&) const = default;
  };

  // Index of the answer's first token; constraints ignore everything before it.
  std::uint32_t answer_begin = 0;
  // Stop texts: the answer ends as soon as it contains one.
  std::vector<std::string> stops{};
  std::vector<Bias> biases{};
  // Subtracted from the logits of tokens already in the answer: once, and per occurrence.
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  // Grammar of the answer's text (docs/protocol.md, "Grammars"); empty: any text.
  std::string grammar{};

  bool empty() const {
    return stops.empty() && biases.empty() && presence_penalty == 0.0f &&
           frequency_penalty == 0.0f && grammar.empty();
  }
  bool operator==(const Constraints&) const = default;
};

}  // namespace edgedraft
