#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/constraints/grammar_automaton.h"
#include "shared/constraints/grammar_tokens.h"
#include "shared/constraints/token_texts.h"
#include "shared/types/constraints.h"

namespace edgedraft {

// Applies constraints: masks the next token's logits and detects the end of an answer.
// Deterministic in the answer's tokens until the grammar's step budget is spent; then an answer may
// end early. All answers of a grammar share the budget (GrammarAutomaton). All other state is a
// cache.
class ConstraintFilter {
 public:
  // Errors    usage: of the grammar, or a bias for a token outside the vocabulary
  // `grammar` is that of the constraints if already made; answers of one thread may share it.
  static Result<ConstraintFilter> make(Constraints constraints,
                                       std::shared_ptr<const TokenTexts> texts,
                                       std::shared_ptr<GrammarTokens> grammar = nullptr);

  const Constraints& constraints() const { return constraints_; }
  // Null without a grammar.
  const std::shared_ptr<GrammarTokens>& grammar() const { return grammar_; }
  // True if logits change; otherwise there are only stops.
  bool changes_logits() const;
  // Masks `logits` to the tokens that may follow `answer`. At least one stays finite.
  // Shapes    logits [vocabulary]
  void apply(std::span<const std::uint32_t> answer, std::span<float> logits);
  // Per element of `tokens`: whether the grammar allows it after `answer`; all true without one.
  std::vector<bool> allowed(std::span<const std::uint32_t> answer,
                            std::span<const std::uint32_t> tokens);
  // True if the last token completes a stop.
  bool stops(std::span<const std::uint32_t> answer) const;

 private:
  ConstraintFilter(Constraints constraints, std::shared_ptr<const TokenTexts> texts)
      : constraints_(std::move(constraints)), texts_(std::move(texts)) {}

  // Text of the token at that index of the answer.
  std::string_view text_at(std::span<const std::uint32_t> answer, std::size_t index) const;
  GrammarAutomaton::State state_behind(std::span<const std::uint32_t> answer);
  // Keeps the state `tokens_back` tokens before the end of the text read, clears the automaton and
  // restarts there.
  void keep(std::size_t tokens_back);
  // Restarts from the kept state, or from the beginning, dropping what was read since.
  void begin_again();
  void apply_grammar(std::span<const std::uint32_t> answer, std::span<float> logits);
  struct Allowed {
    const std::vector<bool>& tokens;  // indexed by token, except those that end an answer
    bool may_end;
  };
  Allowed allowed_behind(std::span<const std::uint32_t> answer);
  bool ends(std::size_t token) const;

  Constraints constraints_;
  std::shared_ptr<const TokenTexts> texts_;
  std::shared_ptr<GrammarTokens> grammar_;
  // Tokens read so far, and the states after those from kept_.count on, valid since the automaton
  // was last cleared.
  std::vector<std::uint32_t> read_;
  std::vector<GrammarAutomaton::State> states_;
  std::uint64_t clearings_ = 0;
  // Restart point after the automaton is cleared.
  struct Kept {
    std::size_t count = 0;  // tokens before it; 0: the beginning, which needs no state
    GrammarAutomaton::Place place{};
  };
  Kept kept_;
};

}  // namespace edgedraft
