#include "server/sessions/known_grammars.h"

#include <gtest/gtest.h>

namespace edgedraft::server {
namespace {

using namespace std::chrono_literals;

class KnownGrammarsTest : public ::testing::Test {
 protected:
  // Uses a new grammar and as many search steps as it takes.
  Result<void> use_another(const std::string& identity) {
    const std::string text = kAmbiguous + "# " + std::to_string(++count_) + "\n";
    EXPECT_EQ(known_.find(identity, text), nullptr);
    if (auto afforded = known_.afford_another(identity, text.size()); !afforded) return afforded;
    const auto tokens = add(identity, text);
    search(*tokens);
    EXPECT_EQ(known_.find(identity, text), tokens);
    return boost::system::in_place_value;
  }

  std::shared_ptr<GrammarTokens> add(const std::string& identity, const std::string& text) {
    auto tokens = std::make_shared<GrammarTokens>(Grammar::parse(text).value(), texts_);
    known_.add(identity, text, tokens);
    return tokens;
  }
  // Adds grammars that are never used.
  void add_cheap_ones(const std::string& identity, int count) {
    for (int i = 0; i < count; ++i) {
      add(identity, "root ::= \"a\" # " + std::to_string(++count_) + "\n");
    }
  }

  static void search(GrammarTokens& tokens) {
    GrammarAutomaton& automaton = tokens.automaton();
    GrammarAutomaton::State state = automaton.start();
    for (int i = 0; i < 300 && state != GrammarAutomaton::kNoRoom; ++i) {
      state = automaton.next(state, 'a');
    }
    EXPECT_GT(automaton.steps_taken(), 10'000u);
  }

  // Leaves the identity without debt and with at most some 1,000 steps.
  void use_up(const std::string& identity) {
    while (known_.afford_another(identity, 0)) continue;
    while (!known_.afford_another(identity, 0)) now_ += 1ms;
    now_ += std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(KnownGrammars::kStepsAText / KnownGrammars::kStepsPerSecond));
  }

  const std::string kAmbiguous = "root ::= s\ns ::= \"a\" s s | \"a\" s | \"a\" s s s | \"a\"\n";
  std::shared_ptr<const TokenTexts> texts_ = std::make_shared<const TokenTexts>(
      std::vector<std::string>{"", "a"}, std::vector<std::uint32_t>{0}, false);
  Instant now_{1h};
  KnownGrammars known_{[this] { return now_; }};
  int count_ = 0;
};

TEST_F(KnownGrammarsTest, LimitsNewGrammarsPerIdentity) {
  int taken = 0;
  while (taken < 10'000 && use_another("greedy")) ++taken;
  ASSERT_GT(taken, 3);
  ASSERT_LT(taken, 10'000);
  EXPECT_EQ(use_another("greedy").error().code, Errc::refused);
  EXPECT_TRUE(use_another("modest"));
  now_ += 10s;
  EXPECT_TRUE(use_another("greedy"));
}

TEST_F(KnownGrammarsTest, ChargesForParsingAnyText) {
  int read = 0;
  while (read < 1000 && known_.afford_another("greedy", kGrammarBytesMax)) ++read;
  EXPECT_GT(read, 10);
  EXPECT_LT(read, 100);
  EXPECT_TRUE(known_.afford_another("modest", kGrammarBytesMax));
  now_ += 10s;
  EXPECT_TRUE(known_.afford_another("greedy", kGrammarBytesMax));
}

// One identity's searches must not show in the latency of another.
TEST_F(KnownGrammarsTest, IdentitiesShareNoGrammars) {
  ASSERT_TRUE(use_another("one"));
  EXPECT_EQ(known_.find("another", kAmbiguous + "# 1\n"), nullptr);
}

// However many other grammars are added before its first search.
TEST_F(KnownGrammarsTest, ChargesSearchesOfHeldGrammars) {
  const auto held = add("sly", kAmbiguous);
  add_cheap_ones("sly", 3 * KnownGrammars::kUnusedMax);
  use_up("sly");
  search(*held);
  EXPECT_EQ(known_.afford_another("sly", 0).error().code, Errc::refused);
  EXPECT_EQ(known_.find("sly", kAmbiguous), held);
}

TEST_F(KnownGrammarsTest, ChargesSearchesOfReleasedGrammars) {
  auto held = add("sly", kAmbiguous);
  use_up("sly");
  search(*held);
  held.reset();
  add_cheap_ones("sly", 3 * KnownGrammars::kUnusedMax);
  EXPECT_EQ(known_.find("sly", kAmbiguous), nullptr);
  EXPECT_FALSE(known_.afford_another("sly", 0));
}

// Steps are replenished during use and while idle.
TEST_F(KnownGrammarsTest, SteadyUseWithinReplenishmentLeavesNoDebt) {
  std::string wide = "root ::=";
  for (int i = 0; i < 4000; ++i) wide += " [\\x00-\\x7f]?";
  GrammarAutomaton& automaton = add("steady", wide)->automaton();
  GrammarAutomaton::State state = automaton.start();
  while (static_cast<double>(automaton.steps_taken()) < 1.1 * KnownGrammars::kStepsAtOnce) {
    automaton.allow_steps(1u << 18);
    for (std::uint8_t byte = 0; byte < 0x80; ++byte) automaton.next(state, byte);
    state = automaton.next(state, 'a');
    ASSERT_NE(state, GrammarAutomaton::kDead);
    ASSERT_NE(state, GrammarAutomaton::kNoRoom);
    now_ += 1s;
  }
  EXPECT_TRUE(known_.afford_another("steady", 0));
}

// Otherwise the other identity would pay for its grammars again.
TEST_F(KnownGrammarsTest, IdentityCannotEvictGrammarsOfAnother) {
  const auto modest = add("modest", kAmbiguous);
  add("modest", kAmbiguous + "# unused\n");
  add_cheap_ones("greedy", 10 * KnownGrammars::kUnusedMax);
  EXPECT_EQ(known_.find("modest", kAmbiguous), modest);
  EXPECT_NE(known_.find("modest", kAmbiguous + "# unused\n"), nullptr);
  known_.forget_unused();
  EXPECT_EQ(known_.count(), KnownGrammars::kUnusedMax + 1) << "plus the one in use";
}

TEST_F(KnownGrammarsTest, ForgetsUnusedGrammars) {
  std::vector<std::shared_ptr<GrammarTokens>> answers;
  for (std::size_t i = 0; i < 3 * KnownGrammars::kUnusedMax; ++i) {
    answers.push_back(add("someone", "root ::= \"a\" # " + std::to_string(i) + "\n"));
  }
  EXPECT_EQ(known_.count(), answers.size());
  answers.clear();
  known_.forget_unused();
  EXPECT_EQ(known_.count(), KnownGrammars::kUnusedMax);
}

}  // namespace
}  // namespace edgedraft::server
