#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/constraints.h"
#include "shared/base/error.h"
#include "shared/constraints/grammar_automaton.h"
#include "shared/constraints/token_texts.h"

namespace edgedraft {

// Constraints at work: what they leave of the next token's logits, and where they end the answer.
// A pure function of the answer's tokens; what it remembers only makes it fast.
class AnswerLaw {
 public:
  // Errors    usage: of the grammar, or a bias for a token that the vocabulary lacks
  static Result<AnswerLaw> make(Constraints constraints, std::shared_ptr<const TokenTexts> texts);

  const Constraints& constraints() const { return constraints_; }
  // Whether logits change at all; else there are stops alone.
  bool changes_logits() const;
  // Leaves of `logits` what may follow `answer`. At least one stays finite.
  // Shapes    logits [vocabulary]
  void apply(std::span<const std::uint32_t> answer, std::span<float> logits);
  // Whether the last token completes a stop.
  bool stops(std::span<const std::uint32_t> answer) const;

 private:
  AnswerLaw(Constraints constraints, std::shared_ptr<const TokenTexts> texts)
      : constraints_(std::move(constraints)), texts_(std::move(texts)) {}

  // The token's text at that place of the answer.
  std::string_view text_at(std::span<const std::uint32_t> answer, std::size_t index) const;
  GrammarAutomaton::State state_behind(std::span<const std::uint32_t> answer);
  const std::vector<bool>& allowed_in(GrammarAutomaton::State state, bool at_start);
  void apply_grammar(std::span<const std::uint32_t> answer, std::span<float> logits);

  Constraints constraints_;
  std::shared_ptr<const TokenTexts> texts_;
  std::optional<GrammarAutomaton> automaton_;
  // What was read last: states behind each of its tokens.
  std::vector<std::uint32_t> read_;
  std::vector<GrammarAutomaton::State> states_;
  // By state, and whether it is the answer's start.
  std::map<std::pair<GrammarAutomaton::State, bool>, std::vector<bool>> allowed_;
};

}  // namespace edgedraft
