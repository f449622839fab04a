#include <cstdlib>
#include <memory>

#include "shared/constraints/grammar_automaton.h"

// Any text parses to a grammar or an error, and any grammar reads any input within its bounds. The
// first line is the input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace edgedraft;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(all.find('\n'), all.size());
  auto grammar = Grammar::parse(all.substr(std::min(line + 1, all.size())));
  if (!grammar) return 0;
  GrammarAutomaton automaton(std::make_shared<const Grammar>(*std::move(grammar)));
  GrammarAutomaton::State state = automaton.start();
  for (const char byte : all.substr(0, line)) {
    GrammarAutomaton::State next = automaton.next(state, static_cast<std::uint8_t>(byte));
    if (next == GrammarAutomaton::kNoRoom) {
      state = automaton.clear_but(state);
      next = automaton.next(state, static_cast<std::uint8_t>(byte));
      if (next == GrammarAutomaton::kNoRoom) return 0;  // too large even alone
    }
    if (next >= GrammarAutomaton::kStatesMax) std::abort();
    if (automaton.next(state, static_cast<std::uint8_t>(byte)) != next) std::abort();
    state = next;
  }
  return 0;
}
