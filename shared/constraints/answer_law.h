#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/constraints.h"
#include "shared/base/error.h"
#include "shared/constraints/grammar_automaton.h"
#include "shared/constraints/grammar_tokens.h"
#include "shared/constraints/token_texts.h"

namespace edgedraft {

// Constraints at work: what they leave of the next token's logits, and where they end the answer.
// A function of the answer's tokens while the grammar has steps to search with, which answers of one
// grammar share (GrammarAutomaton): behind them an answer may end early. The rest that is remembered
// only makes it fast.
class AnswerLaw {
 public:
  // Errors    usage: of the grammar, or a bias for a token that the vocabulary lacks
  // `grammar` is that of the constraints, if it was made before; answers of one thread may share
  // it.
  static Result<AnswerLaw> make(Constraints constraints, std::shared_ptr<const TokenTexts> texts,
                                std::shared_ptr<GrammarTokens> grammar = nullptr);

  const Constraints& constraints() const { return constraints_; }
  // Null without one.
  const std::shared_ptr<GrammarTokens>& grammar() const { return grammar_; }
  // Whether logits change at all; else there are stops alone.
  bool changes_logits() const;
  // Leaves of `logits` what may follow `answer`. At least one stays finite.
  // Shapes    logits [vocabulary]
  void apply(std::span<const std::uint32_t> answer, std::span<float> logits);
  // Which of `tokens` the grammar lets follow `answer`, by place; all without one.
  std::vector<bool> allowed(std::span<const std::uint32_t> answer,
                            std::span<const std::uint32_t> tokens);
  // Whether the last token completes a stop.
  bool stops(std::span<const std::uint32_t> answer) const;

 private:
  AnswerLaw(Constraints constraints, std::shared_ptr<const TokenTexts> texts)
      : constraints_(std::move(constraints)), texts_(std::move(texts)) {}

  // The token's text at that place of the answer.
  std::string_view text_at(std::span<const std::uint32_t> answer, std::size_t index) const;
  GrammarAutomaton::State state_behind(std::span<const std::uint32_t> answer);
  // Keeps the place so many tokens before the end of what was read, clears the automaton, and
  // begins again.
  void keep(std::size_t tokens_back);
  // From the place that was kept, or from the beginning: what was read behind it is forgotten.
  void begin_again();
  void apply_grammar(std::span<const std::uint32_t> answer, std::span<float> logits);
  struct Allowed {
    const std::vector<bool>& tokens;  // by token, but for those that end
    bool may_end;
  };
  Allowed allowed_behind(std::span<const std::uint32_t> answer);
  bool ends(std::size_t token) const;

  Constraints constraints_;
  std::shared_ptr<const TokenTexts> texts_;
  std::shared_ptr<GrammarTokens> grammar_;
  // What was read last, and the states behind its tokens from kept_.count on, of the automaton as
  // it was cleared last.
  std::vector<std::uint32_t> read_;
  std::vector<GrammarAutomaton::State> states_;
  std::uint64_t clearings_ = 0;
  // Where reading begins when the automaton has been cleared.
  struct Kept {
    std::size_t count = 0;  // tokens before it; 0: the beginning, which needs no place
    GrammarAutomaton::Place place{};
  };
  Kept kept_;
};

}  // namespace edgedraft
