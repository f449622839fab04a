#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "shared/constraints/grammar_automaton.h"

namespace edgedraft::test {

inline GrammarAutomaton automaton_of(const std::string& grammar) {
  auto parsed = Grammar::parse(grammar);
  EXPECT_TRUE(parsed) << parsed.error().message << "\n" << grammar;
  return GrammarAutomaton(std::make_shared<const Grammar>(*std::move(parsed)));
}

inline bool accepts(GrammarAutomaton& automaton, const std::string& text) {
  auto state = automaton.start();
  for (const char byte : text) state = automaton.next(state, static_cast<std::uint8_t>(byte));
  return automaton.accepts(state);
}

}  // namespace edgedraft::test
