// Bounds the cost of parsing and searching untrusted grammars.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "shared/base/clock.h"
#include "shared/constraints/grammar.h"
#include "shared/constraints/grammar_automaton.h"
#include "shared/constraints/grammar_tokens.h"

namespace edgedraft {
namespace {

// Takes the fastest of several runs, which is the least disturbed.
double seconds_to_parse(const std::string& text) {
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    const Instant begun = Clock::now();
    const auto parsed = Grammar::parse(text);
    fastest = std::min(fastest, seconds(Clock::now() - begun));
    EXPECT_TRUE(parsed) << parsed.error().message;
  }
  return fastest;
}

// Thousands of character classes, `different` of them distinct, before a long literal.
std::string classes_before_a_literal(std::size_t different) {
  std::string characters;
  for (char c = ' '; c <= '~'; ++c) {
    if (std::string("[]\\^-").find(c) == std::string::npos) characters += c;
  }
  std::vector<std::string> classes;
  for (std::size_t a = 0; a < characters.size(); ++a) {
    for (std::size_t b = a + 1; b < characters.size(); ++b) {
      classes.push_back(std::string("[") + characters[a] + characters[b] + "]");
    }
  }
  std::string text = "root ::= ";
  for (std::size_t i = 0; i < classes.size(); ++i) text += classes[i % different];
  return text + "\"" + std::string(40'000, 'a') + "\"";
}

TEST(GrammarCostTest, ManyCharacterClassesParseAsFastAsFew) {
  const double few = seconds_to_parse(classes_before_a_literal(10));
  const double many = seconds_to_parse(classes_before_a_literal(4000));
  EXPECT_LT(many, 20.0 * few);
}

// Otherwise the sequence grows to millions of elements before they are counted.
TEST(GrammarCostTest, CountsRepetitionsBeforeTheirSequenceEnds) {
  std::string text = "root ::=";
  for (int i = 0; i < 100; ++i) text += " \"a\"{1000}";
  const auto parsed = Grammar::parse(text + " [z-a]");
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("too large"), std::string::npos) << parsed.error().message;
}

// If a text may be in any of thousands of states that share their next characters, each character
// visits all of them.
TEST(GrammarCostTest, StepsCountEveryPossibleState) {
  constexpr std::uint64_t kPlaces = 4000;
  std::string text = "root ::=";
  for (std::uint64_t i = 0; i < kPlaces; ++i) text += " [\\x00-\\x7f]?";
  GrammarAutomaton automaton(std::make_shared<const Grammar>(Grammar::parse(text).value()));
  const auto steps_of = [&](const auto& work) {
    const std::uint64_t before = automaton.steps_taken();
    work();
    return automaton.steps_taken() - before;
  };
  const GrammarAutomaton::State state = automaton.next(automaton.start(), 'a');
  EXPECT_GE(steps_of([&] { automaton.next(state, 'b'); }), 3 * kPlaces);
  EXPECT_GE(steps_of([&] { automaton.next(state, 'c'); }), kPlaces / 16)
      << "the search finds the successor of 'b'";
  EXPECT_EQ(steps_of([&] { automaton.next(state, 'c'); }), 0u) << "cached";
  GrammarAutomaton::Place place;
  EXPECT_GE(steps_of([&] { place = automaton.place_of(state); }), kPlaces - 1);
  automaton.clear();
  EXPECT_GE(steps_of([&] { automaton.enter(place); }), kPlaces - 1);
}

TEST(GrammarCostTest, StepsCountTokenTraversal) {
  std::vector<std::string> texts{""};
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z'; ++b) {
      for (char c = 'a'; c <= 'z'; ++c) texts.push_back({a, b, c});
    }
  }
  const auto tokens = std::make_shared<const TokenTexts>(
      std::move(texts), std::vector<std::uint32_t>{0}, /*adds_space_prefix=*/false);
  GrammarTokens grammar(Grammar::parse("root ::= [a-z]*").value(), tokens);
  const auto beyond_the_automaton = [&] {
    return grammar.steps_taken() - grammar.automaton().steps_taken();
  };
  EXPECT_EQ(beyond_the_automaton(), 0u);
  grammar.allowed_in(grammar.automaton().start(), false);
  const std::uint64_t once = beyond_the_automaton();
  EXPECT_GE(once, tokens->nodes().size() / 100);
  grammar.allowed_in(grammar.automaton().start(), false);
  EXPECT_EQ(beyond_the_automaton(), once) << "cached";
}

}  // namespace
}  // namespace edgedraft
