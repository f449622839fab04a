#include "shared/constraints/grammar.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "shared/base/random.h"
#include "shared/constraints/grammar_automaton.h"

namespace edgedraft {
namespace {

GrammarAutomaton automaton(const std::string& grammar) {
  auto parsed = Grammar::parse(grammar);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return GrammarAutomaton(std::make_shared<const Grammar>(*std::move(parsed)));
}

GrammarAutomaton::State read(GrammarAutomaton& a, const std::string& text) {
  GrammarAutomaton::State state = a.start();
  for (const char byte : text) state = a.next(state, static_cast<std::uint8_t>(byte));
  return state;
}

bool accepts(GrammarAutomaton& a, const std::string& text) {
  return a.accepts(read(a, text));
}

void expect(const std::string& grammar, const std::vector<std::string>& right,
            const std::vector<std::string>& wrong) {
  SCOPED_TRACE(grammar);
  GrammarAutomaton a = automaton(grammar);
  for (const std::string& text : right) EXPECT_TRUE(accepts(a, text)) << text;
  for (const std::string& text : wrong) EXPECT_FALSE(accepts(a, text)) << text;
}

TEST(GrammarTest, ParsesEveryConstruct) {
  expect("root ::= \"ab\"", {"ab"}, {"", "a", "abc", "b"});
  expect("root ::= \"a\" | \"b\" |", {"a", "b", ""}, {"ab", "c"});
  expect("root ::= \"a\"*", {"", "a", "aaaaaaaa"}, {"b", "ab"});
  expect("root ::= \"ab\"+", {"ab", "abab"}, {"", "aba"});
  expect("root ::= \"a\"? \"b\"", {"b", "ab"}, {"a", "aab"});
  expect("root ::= [a-c]{2}", {"ab", "cc"}, {"a", "abc"});
  expect("root ::= [a-c]{2,}", {"ab", "abcabc"}, {"a", "abd"});
  expect("root ::= [a-c]{1,3}", {"a", "abc"}, {"", "abca"});
  expect("root ::= (\"a\" (\"b\" | \"c\"))+ \"d\"", {"abd", "abacd"}, {"d", "aad"});
  expect("root ::= x y # of two\nx ::= \"1\"\n\ny ::=\n  \"2\" |\n  \"3\"\n", {"12", "13"}, {"1"});
  expect("root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", ")(", "(()"});
  expect(R"(root ::= "\"\\\n\x41\u00e9")", {"\"\\\nA\xC3\xA9"}, {"\"\\\nA"});
  expect("root ::= [^a-z]", {"A", "\xC3\xA9", "\xE6\x97\xA5", "\xF0\x9F\x99\x82"},
         {"a", "z", "\xC3", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xC0\x80"});
  expect("root ::= .", {"a", "\n", "\xF0\x9F\x99\x82"}, {"", "\x80", "\xFF", "ab"});
  expect("root ::= [\\]\\-^]+", {"]-^"}, {"a"});
  expect("root ::= [é-ñ]", {"é", "ñ", "î"}, {"è", "ò", "e"});
}

// Compares byte ranges of characters with the characters themselves.
TEST(GrammarTest, CharacterRangesAreExact) {
  const auto utf8 = [](std::uint32_t c) {
    std::string text;
    if (c < 0x80) return text += static_cast<char>(c);
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr int kLead[] = {0, 0xC0, 0xE0, 0xF0};
    text += static_cast<char>(kLead[more] | (c >> (6 * more)));
    for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3F));
    return text;
  };
  Random random(3);
  const auto character = [&] {
    constexpr std::uint32_t kEnds[] = {0x80, 0x800, 0x10000, 0x110000};
    for (;;) {
      const auto c = static_cast<std::uint32_t>(random.below(kEnds[random.below(4)]));
      if (c < 0xD800 || c > 0xDFFF) return c;
    }
  };
  const auto spelt = [](std::uint32_t c) {
    char text[16];
    std::snprintf(text, sizeof text, "\\U%08X", c);
    return std::string(text);
  };
  for (int run = 0; run < 200; ++run) {
    std::uint32_t first = character();
    std::uint32_t last = character();
    if (first > last) std::swap(first, last);
    GrammarAutomaton a = automaton("root ::= [" + spelt(first) + "-" + spelt(last) + "]");
    for (const std::uint32_t c : {first, last, character(), character(), first + 1, last - 1,
                                  first == 0 ? 0 : first - 1, last + 1}) {
      if ((c >= 0xD800 && c <= 0xDFFF) || c > 0x10FFFF) continue;
      ASSERT_EQ(accepts(a, utf8(c)), c >= first && c <= last)
          << first << " to " << last << ": " << c;
    }
  }
}

TEST(GrammarTest, ErrorsNameLine) {
  const auto message = [](const std::string& text) {
    const auto parsed = Grammar::parse(text);
    EXPECT_FALSE(parsed) << text;
    return parsed ? std::string() : parsed.error().message;
  };
  EXPECT_NE(message("").find("root"), std::string::npos);
  EXPECT_NE(message("x ::= \"a\"").find("root"), std::string::npos);
  EXPECT_NE(message("root ::= \"a\"\nroot ::= \"b\"").find("line 2"), std::string::npos);
  EXPECT_NE(message("root ::= y").find("'y'"), std::string::npos);
  for (const char* wrong :
       {"root = x", "root ::= \"a", "root ::= [a", "root ::= (\"a\"", "root ::= \"a\")",
        "root ::= \"a\"{2", "root ::= \"a\"{3,2}", "root ::= \"a\"{99999}", "root ::= [z-a]",
        "root ::= \"\\q\"", "root ::= \"\\xZZ\"", "root ::= \"\\uD800\"", "root ::= \"\xC3\"",
        "root ::= \"\xC0\x80\"", "::= x", "root ::= *"}) {
    EXPECT_NE(message(wrong).find("grammar, line 1"), std::string::npos) << wrong;
  }
}

// Including mistakes that only the whole text shows.
TEST(GrammarTest, RuleErrorsNameRuleAndItsLine) {
  const auto begin_of = [](const std::string& text) {
    const auto parsed = Grammar::parse(text);
    EXPECT_FALSE(parsed) << text;
    const std::string message = parsed ? "" : parsed.error().message;
    return message.substr(0, message.find("' ") + 1);
  };
  EXPECT_EQ(begin_of("root ::= a\na ::= z\n\nb ::= y | z\n"), "grammar, line 2: the rule 'z'")
      << "first use of the first undefined rule";
  EXPECT_EQ(begin_of("root ::= a\n\na ::=\n  \"1\"\na ::=\n  \"2\"\n"),
            "grammar, line 5: the rule 'a'");
  EXPECT_EQ(begin_of("root ::= \"(\" x\nx ::= y\ny ::= x | \"a\"\n"),
            "grammar, line 2: the rule 'x'");
  EXPECT_EQ(begin_of("root ::= a\n\na ::= \"1\" |\n  (\"2\"*)*\nb ::= \"3\"\n"),
            "grammar, line 3: the rule 'a'")
      << "groups and repetitions are unnamed";
}

TEST(GrammarTest, RejectsEndlessAndOversizedGrammars) {
  for (const char* endless :
       {"root ::= root \"a\" | \"b\"", "root ::= x\nx ::= y\ny ::= x | \"a\"", "root ::= (\"a\"*)*",
        "root ::= \"a\"? root | \"b\"", "root ::= (\"\")+ \"a\" root?*"}) {
    EXPECT_FALSE(Grammar::parse(endless)) << endless;
  }
  // Large texts, and small ones that expand to large grammars.
  EXPECT_FALSE(Grammar::parse("root ::= \"" + std::string(kGrammarBytesMax, 'a') + "\""));
  EXPECT_FALSE(Grammar::parse("root ::= ((((\"a\"{1000}){1000}){1000}){1000}){1000}x"));
  std::string many = "root ::= \"a\"{1000}";
  for (int i = 0; i < 200; ++i) many += " \"a\"{0,1000}";
  EXPECT_FALSE(Grammar::parse(many));
  EXPECT_FALSE(
      Grammar::parse("root ::= " + std::string(100, '(') + "\"a\"" + std::string(100, ')')));
  // A chain of rules that may all be empty parses quickly in any order.
  std::string chain;
  for (int i = 0; i < 4000; ++i) {
    chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  }
  EXPECT_TRUE(Grammar::parse(chain + "r4000 ::= \"\"\nroot ::= r0"));
}

// A place is the state itself, even if the tables are full, and independent of what was read
// before.
TEST(GrammarTest, StatesSurviveClearedTables) {
  GrammarAutomaton a = automaton("root ::= (x{1000}){16} \"c\"\nx ::= [ab] | \"(\" root \")\"\n");
  Random random(3);
  GrammarAutomaton::State state = a.start();
  std::uint32_t open = 0;
  for (int i = 0; i < 15'000; ++i) {
    const char byte = "ab()"[random.below(open > 20 ? 2 : 4)];
    if (byte == ')') continue;
    open += byte == '(';
    GrammarAutomaton::State next = a.next(state, static_cast<std::uint8_t>(byte));
    if (next == GrammarAutomaton::kNoRoom) {
      state = a.clear_but(state);
      next = a.next(state, static_cast<std::uint8_t>(byte));
    }
    ASSERT_NE(next, GrammarAutomaton::kDead) << i;
    ASSERT_LT(next, GrammarAutomaton::kStatesMax) << i;
    state = next;
  }
  EXPECT_GT(a.clearings(), 0u);
  EXPECT_EQ(a.next(state, 'd'), GrammarAutomaton::kDead);
}

// Deep nesting and ambiguity are bounded; beyond the bounds a text is rejected.
TEST(GrammarTest, MemoryIsBoundedForAnyInput) {
  GrammarAutomaton nested = automaton("root ::= \"(\" root \")\" | \"\"");
  EXPECT_TRUE(accepts(nested, std::string(200, '(') + std::string(200, ')')));
  EXPECT_EQ(read(nested, std::string(2000, '(')), GrammarAutomaton::kDead);
  GrammarAutomaton ambiguous =
      automaton("root ::= s\ns ::= \"a\" s s | \"a\" s | \"a\" s s s | \"a\"");
  EXPECT_LE(read(ambiguous, std::string(5000, 'a')), GrammarAutomaton::kNoRoom);
  // Many rules before one with many alternatives, in thousands of states.
  std::string wide = "root ::= ";
  for (int i = 0; i < 500; ++i) wide += "a | ";
  wide += "\"e\" x x x x x x x x x x x x\na ::= ";
  for (int i = 0; i < 240; ++i) wide += "[\\x00-\\x7F] root | ";
  GrammarAutomaton slow = automaton(wide + "\"b\"\nx ::= [\\x00-\\x7F]");
  for (int path = 0; path < 2000; ++path) {
    std::string text;
    for (int bit = 0; bit < 12; ++bit) text += (path >> bit & 1) != 0 ? 'e' : 'c';
    read(slow, text);
  }
  EXPECT_LE(slow.steps_taken(), GrammarAutomaton::kStepsMax);
  // A repetition does not nest.
  GrammarAutomaton flat = automaton("root ::= (\"a\" | \"b\")* \"c\"");
  EXPECT_TRUE(accepts(flat, std::string(100'000, 'a') + "c"));
}

}  // namespace
}  // namespace edgedraft
