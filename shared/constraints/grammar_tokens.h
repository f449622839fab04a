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

// Which tokens may follow where a text of a grammar stands. What was found is kept, so answers of
// one grammar share it.
//
// Threads   one
class GrammarTokens {
 public:
  GrammarTokens(Grammar grammar, std::shared_ptr<const TokenTexts> texts);

  GrammarAutomaton& automaton() { return automaton_; }
  // What searching has taken so far: the automaton's steps, and the way through all tokens' bytes
  // for each new set.
  std::uint64_t steps_taken() const;
  // By token. `skips_space`: a space that a token begins with is no part of the text. The automaton
  // may have been cleared after that.
  const std::vector<bool>& allowed_in(GrammarAutomaton::State state, bool skips_space);

 private:
  // Nothing for lack of room. `alone`: in tables that were cleared for it, so what has no room is
  // allowed nowhere.
  std::optional<std::vector<bool>> explore(GrammarAutomaton::State state, bool skips_space,
                                           bool alone);
  // Those of before the last clearing are others.
  void forget_old_states();

  GrammarAutomaton automaton_;
  std::shared_ptr<const TokenTexts> texts_;
  std::map<std::pair<GrammarAutomaton::State, bool>, std::vector<bool>> allowed_;
  std::vector<bool> unfinished_;  // the last set, if steps ran out: it may lack some
  std::uint64_t clearings_ = 0;   // when allowed_ was begun
  std::uint64_t nodes_seen_ = 0;
};

}  // namespace edgedraft
