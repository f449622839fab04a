#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "shared/constraints/grammar_automaton.h"
#include "shared/constraints/token_texts.h"

namespace edgedraft {

// Tokens allowed after a state of a grammar. Results are cached and shared by all answers of the
// grammar.
//
// Threads   one
class GrammarTokens {
 public:
  GrammarTokens(Grammar grammar, std::shared_ptr<const TokenTexts> texts);

  GrammarAutomaton& automaton() { return automaton_; }
  // Search work so far: the automaton's steps, and walks over all tokens' bytes for new sets.
  std::uint64_t steps_taken() const;
  // Indexed by token. `skips_space`: a token's leading space is not part of the text. May clear the
  // automaton.
  const std::vector<bool>& allowed_in(GrammarAutomaton::State state, bool skips_space);

 private:
  // Nullopt if space ran out. `alone`: the tables were cleared for it, so anything that does not
  // fit is forbidden.
  std::optional<std::vector<bool>> explore(GrammarAutomaton::State state, bool skips_space,
                                           bool alone);
  // Drops results from before the last clearing; their state numbers are invalid.
  void forget_old_states();

  GrammarAutomaton automaton_;
  std::shared_ptr<const TokenTexts> texts_;
  std::map<std::pair<GrammarAutomaton::State, bool>, std::vector<bool>> allowed_;
  std::vector<bool> unfinished_;  // last set if steps ran out; may be incomplete
  std::uint64_t clearings_ = 0;   // clearings when allowed_ was started
  std::uint64_t nodes_seen_ = 0;
};

}  // namespace edgedraft
