#include "shared/constraints/constraint_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "shared/base/random.h"

namespace edgedraft {
namespace {

using Tokens = std::vector<std::uint32_t>;
constexpr std::uint32_t kEnd = 0;
constexpr std::uint32_t kControl = 1;

std::shared_ptr<const TokenTexts> texts(bool adds_space_prefix = false) {
  return std::make_shared<const TokenTexts>(
      std::vector<std::string>{"", "", "a", "b", "ab", "aba", " a", " ", "{", "}", "\xC3", "\xA9",
                               "\xC3\xA9", "b", "ba b"},
      std::vector<std::uint32_t>{kEnd}, adds_space_prefix);
}

ConstraintFilter filter(Constraints constraints, bool adds_space_prefix = false) {
  return ConstraintFilter::make(std::move(constraints), texts(adds_space_prefix)).value();
}

Tokens allowed(ConstraintFilter& filter, const Tokens& answer) {
  std::vector<float> logits(texts()->count(), 1.0f);
  filter.apply(answer, logits);
  Tokens allowed;
  for (std::uint32_t t = 0; t < logits.size(); ++t) {
    if (std::isfinite(logits[t])) allowed.push_back(t);
  }
  return allowed;
}

// As above, testing each token separately.
Tokens picked(ConstraintFilter& filter, const Tokens& answer) {
  Tokens all(texts()->count());
  std::iota(all.begin(), all.end(), 0u);
  const std::vector<bool> may = filter.allowed(answer, all);
  Tokens picked;
  for (const std::uint32_t t : all) {
    if (may[t]) picked.push_back(t);
  }
  return picked;
}

// Reference: the tokens that a grammar allows, token by token, without tree or cache.
Tokens allowed_by_hand(const std::string& grammar, const Tokens& answer) {
  GrammarAutomaton automaton(std::make_shared<const Grammar>(Grammar::parse(grammar).value()));
  const auto behind = [&](const Tokens& tokens) {
    auto state = automaton.start();
    for (const std::uint32_t t : tokens) {
      for (const char byte : texts()->text(t)) {
        state = automaton.next(state, static_cast<std::uint8_t>(byte));
      }
    }
    return state;
  };
  Tokens allowed;
  for (std::uint32_t t = 2; t < texts()->count(); ++t) {
    Tokens next = answer;
    next.push_back(t);
    if (behind(next) != GrammarAutomaton::kDead) allowed.push_back(t);
  }
  if (automaton.accepts(behind(answer)) || allowed.empty()) allowed.insert(allowed.begin(), kEnd);
  return allowed;
}

TEST(ConstraintFilterTest, AllowsTokensThatContinueGrammar) {
  for (const std::string grammar :
       {"root ::= \"ab\"* \"{\"", "root ::= [^b]+", "root ::= \"{\" root \"}\" | \"a\"",
        "root ::= (\"a\" | \"b\" | \" \"){3}", "root ::= \"é\"", "root ::= \"aba b\" | \"ab\""}) {
    SCOPED_TRACE(grammar);
    Random random(7);
    ConstraintFilter kept = filter({.grammar = grammar});
    for (int run = 0; run < 50; ++run) {
      Tokens answer;
      for (int step = 0; step < 8; ++step) {
        const Tokens right = allowed(kept, answer);
        ASSERT_EQ(right, allowed_by_hand(grammar, answer));
        ASSERT_EQ(picked(kept, answer), right);
        const std::uint32_t next = right[random.below(right.size())];
        if (next == kEnd) break;
        answer.push_back(next);
        // Another answer in between, like another branch of a tree.
        allowed(kept, {2, 3});
      }
    }
  }
}

// Every position of a counted repetition is a state, and the tables hold 8,192.
TEST(ConstraintFilterTest, LongAnswersOutliveStateTables) {
  const std::string grammar = "root ::= (\"{\" [ab]{1,30} \"}\"){900}";
  ConstraintFilter kept = filter({.grammar = grammar});
  ConstraintFilter beside = ConstraintFilter::make({.grammar = grammar}, texts(), kept.grammar())
                                .value();  // another session
  Random random(5);
  Tokens answer;
  std::size_t items = 0;
  std::size_t in_item = 0;
  // Allowed tokens from the answer alone; a token's text may not exceed the remaining length.
  const auto right = [&](std::size_t items_done, std::size_t letters) {
    if (items_done == 900) return Tokens{kEnd};
    if (letters == 0) return Tokens{8};     // {
    const std::size_t room = 31 - letters;  // remaining letters: with 1 only the brace fits
    Tokens may;
    if (room >= 1) may = {2, 3};
    if (room >= 2) may.push_back(4);
    if (room >= 3) may.push_back(5);
    if (letters > 1) may.push_back(9);
    if (room >= 1) may.push_back(13);
    std::ranges::sort(may);
    return may;
  };
  while (items < 900) {
    const Tokens may = right(items, in_item);
    ASSERT_EQ(allowed(kept, answer), may) << items << " items, " << in_item;
    if (answer.size() % 7 == 0) {
      ASSERT_EQ(allowed(beside, answer), may);
      // A branch not taken, and an answer with another prefix.
      Tokens other(answer.begin(), answer.end() - std::min<std::ptrdiff_t>(3, answer.size()));
      other.push_back(8);
      allowed(kept, other);
      if (answer.size() % 91 == 0) allowed(kept, {8, 2, 9});
    }
    const std::uint32_t next = may[random.below(may.size())];
    answer.push_back(next);
    if (next == 9) {
      ++items;
      in_item = 0;
    } else {
      in_item += in_item == 0 ? 1 : texts()->text(next).size();
    }
  }
  EXPECT_EQ(allowed(kept, answer), Tokens{kEnd});
  EXPECT_EQ(allowed(beside, answer), Tokens{kEnd});
}

// Texts of a multilingual vocabulary: bytes, pairs of letters, and UTF-8 characters of all lengths,
// with every byte in every position.
std::shared_ptr<const TokenTexts> many_texts() {
  std::vector<std::string> texts{""};
  for (int byte = 1; byte < 256; ++byte) texts.push_back({static_cast<char>(byte)});
  for (char a = ' '; a <= '~'; ++a) {
    for (char b = ' '; b <= '~'; ++b) texts.push_back({a, b});
  }
  for (int lead = 0xC2; lead <= 0xF4; ++lead) {
    const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    for (std::size_t place = 1; place < length; ++place) {
      for (int byte = 0x80; byte <= 0xBF; ++byte) {
        std::string character(length, '\x80');
        character[0] = static_cast<char>(lead);
        if (lead == 0xE0) character[1] = '\xA0';  // the lowest valid one
        if (lead == 0xF0) character[1] = '\x90';
        character[place] = static_cast<char>(byte);
        texts.push_back(character);
      }
    }
  }
  return std::make_shared<const TokenTexts>(std::move(texts), std::vector<std::uint32_t>{kEnd},
                                            /*adds_space_prefix=*/false);
}

// Each position is a state whose possible bytes have to be searched. Steps that the first answer
// spends are still available to the second.
TEST(ConstraintFilterTest, CountedRepetitionsStayWithinStepBudget) {
  const auto texts = many_texts();
  const auto token = [&](const std::string& text) {
    for (std::uint32_t t = 0; t < texts->count(); ++t) {
      if (texts->text(t) == text) return t;
    }
    ADD_FAILURE() << text;
    return 0u;
  };
  // Generated from schemas.
  const Constraints constraints{.grammar = R"(root ::= "\"" char{0,1000} "\""
char ::= [^"\\\x00-\x1f\x7f] | "\\" (["\\/bfnrt] | "u" hex hex hex hex)
hex ::= [0-9a-fA-F])"};
  const std::uint32_t quote = token("\"");
  const Tokens words{token("ab"), token("z "), token("\xC3\xA9"), token("\xE4\xBD\x80")};
  const Tokens asked{quote, words[0], words[1], words[2], words[3], token("\"a"), token("\xA9")};
  std::shared_ptr<GrammarTokens> grammar;
  for (int time = 0; time < 3; ++time) {
    ConstraintFilter filter = ConstraintFilter::make(constraints, texts, grammar).value();
    grammar = filter.grammar();
    Tokens answer{quote};
    for (std::size_t characters = 0; characters <= 998;) {
      const std::vector<bool> right{true, true, true, true, true, false, false};
      ASSERT_EQ(filter.allowed(answer, asked), right) << time << ", " << characters;
      const std::size_t word = characters % words.size();
      answer.push_back(words[word]);
      characters += word < 2 ? 2 : 1;
    }
    answer.push_back(quote);
    EXPECT_TRUE(filter.allowed(answer, Tokens{kEnd})[0]);
  }
}

// A grammar may have a state with more successors than the tables hold.
TEST(ConstraintFilterTest, ReparsesStatesThatExceedTables) {
  std::vector<std::string> words{"", std::string(1000, 'x'), "0"};
  std::string pal = "pal ::= \"0\"";
  for (char a = 'a'; a <= 'z'; ++a) {
    pal += std::string(" | \"") + a + "\" pal \"" + a + "\"";
    for (char b = 'a'; b <= 'z'; ++b) {
      for (char c = 'a'; c <= 'z'; ++c) words.push_back({a, b, c});
    }
  }
  const auto texts = std::make_shared<const TokenTexts>(
      std::move(words), std::vector<std::uint32_t>{kEnd}, /*adds_space_prefix=*/false);
  ConstraintFilter filter =
      ConstraintFilter::make({.grammar = "root ::= (\"x\"{1000}){9} pal\n" + pal}, texts).value();
  Tokens answer(9, 1);
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(filter.allowed(answer, Tokens{kEnd, 1, 2, 3}),
              (std::vector<bool>{false, false, true, true}));
    answer.push_back(3);
  }
}

TEST(ConstraintFilterTest, TextOutsideGrammarCanOnlyEnd) {
  ConstraintFilter kept = filter({.grammar = "root ::= \"a\"+"});
  EXPECT_EQ(allowed(kept, {3}), Tokens{kEnd});
}

TEST(ConstraintFilterTest, LeadingSpaceOfAnswerIsOutsideGrammar) {
  ConstraintFilter kept = filter({.grammar = "root ::= \"a\" \" a\""}, /*adds_space_prefix=*/true);
  EXPECT_EQ(allowed(kept, {}), (Tokens{2, 6}));
  EXPECT_EQ(allowed(kept, {6}), (Tokens{6, 7}));
  EXPECT_EQ(allowed(kept, {6, 6}), Tokens{kEnd});
}

TEST(ConstraintFilterTest, AllowsATokenIfDrafterRulesOutAllAllowedOnes) {
  ConstraintFilter kept = filter({.grammar = "root ::= \"}\""});
  std::vector<float> logits(texts()->count(), -std::numeric_limits<float>::infinity());
  logits[2] = 1.0f;
  kept.apply({}, logits);
  EXPECT_EQ(logits[9], 0.0f);
  EXPECT_FALSE(std::isfinite(logits[2]));
}

TEST(ConstraintFilterTest, AppliesPenaltiesPerAnswerTokenAndAddsBiases) {
  ConstraintFilter kept =
      filter({.biases = {{.token = 5, .bias = -3.0f}, {.token = 3, .bias = 1.0f}},
              .presence_penalty = 0.5f,
              .frequency_penalty = 0.25f});
  EXPECT_TRUE(kept.changes_logits());
  std::vector<float> logits(texts()->count(), 0.0f);
  kept.apply(Tokens{3, 4, 3, 3}, logits);
  EXPECT_FLOAT_EQ(logits[3], 1.0f - 0.5f - 0.75f);
  EXPECT_FLOAT_EQ(logits[4], -0.75f);
  EXPECT_FLOAT_EQ(logits[5], -3.0f);
  EXPECT_FLOAT_EQ(logits[2], 0.0f);
}

TEST(ConstraintFilterTest, StopsWhereStopTextIsComplete) {
  const ConstraintFilter kept = filter({.stops = {"bab", "a a"}});
  EXPECT_FALSE(kept.changes_logits());
  EXPECT_FALSE(kept.stops({}));
  EXPECT_FALSE(kept.stops(Tokens{2, 3}));            // ab
  EXPECT_TRUE(kept.stops(Tokens{3, 4}));             // b ab
  EXPECT_TRUE(kept.stops(Tokens{4, 2, 3}));          // ab a b
  EXPECT_FALSE(kept.stops(Tokens{3, 4, 2}));         // already complete
  EXPECT_TRUE(kept.stops(Tokens{2, 6}));             // a " a"
  EXPECT_TRUE(kept.stops(Tokens{2, 7, 5}));          // a " " aba: inside the last token
  EXPECT_FALSE(kept.stops(Tokens{3, 4, kControl}));  // adds nothing
}

// Compares stops found token by token with stops in the whole text.
TEST(ConstraintFilterTest, IncrementalStopsMatchFullText) {
  Random random(9);
  for (int run = 0; run < 2000; ++run) {
    std::vector<std::string> stops;
    for (std::uint64_t i = 0; i <= random.below(3); ++i) {
      std::string stop;
      for (std::uint64_t c = 0; c <= random.below(4); ++c) stop += "ab "[random.below(3)];
      stops.push_back(stop);
    }
    const ConstraintFilter kept = filter({.stops = stops});
    Tokens answer;
    std::string text;
    const auto holds = [&] {
      for (const std::string& stop : stops) {
        if (text.find(stop) != std::string::npos) return true;
      }
      return false;
    };
    for (int step = 0; step < 12; ++step) {
      answer.push_back(static_cast<std::uint32_t>(2 + random.below(6)));
      text += texts()->text(answer.back());
      ASSERT_EQ(kept.stops(answer), holds()) << text;
      if (holds()) break;
    }
  }
}

TEST(ConstraintFilterTest, RejectsInvalidConstraints) {
  EXPECT_FALSE(ConstraintFilter::make({.grammar = "root ::= ("}, texts()));
  EXPECT_FALSE(ConstraintFilter::make({.biases = {{.token = 15, .bias = 1.0f}}}, texts()));
}

}  // namespace
}  // namespace edgedraft
