#pragma once

#include <cstdint>
#include <map>
#include <memory>
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
  // By token. `skips_space`: a space that a token begins with is no part of the text.
  const std::vector<bool>& allowed_in(GrammarAutomaton::State state, bool skips_space);

 private:
  GrammarAutomaton automaton_;
  std::shared_ptr<const TokenTexts> texts_;
  std::map<std::pair<GrammarAutomaton::State, bool>, std::vector<bool>> allowed_;
};

}  // namespace edgedraft
