#include "server/sessions/known_grammars.h"

#include <gtest/gtest.h>

namespace edgedraft {
namespace {

using namespace std::chrono_literals;

class KnownGrammarsTest : public testing::Test {
 protected:
  // A grammar that nobody knows, and as much searching as it takes.
  Result<void> use_another(const std::string& identity) {
    const std::string text = kAmbiguous + "# " + std::to_string(++count_) + "\n";
    EXPECT_EQ(known_.find(identity, text), nullptr);
    if (auto afforded = known_.afford_another(identity); !afforded) return afforded;
    auto tokens = std::make_shared<GrammarTokens>(Grammar::parse(text).value(), texts_);
    known_.add(identity, text, tokens);
    GrammarAutomaton& automaton = tokens->automaton();
    GrammarAutomaton::State state = automaton.start();
    for (int i = 0; i < 300 && state != GrammarAutomaton::kNoRoom; ++i) {
      state = automaton.next(state, 'a');
    }
    EXPECT_GT(automaton.steps_taken(), 10'000u);
    EXPECT_EQ(known_.find(identity, text), tokens);
    return boost::system::in_place_value;
  }

  const std::string kAmbiguous = "root ::= s\ns ::= \"a\" s s | \"a\" s | \"a\" s s s | \"a\"\n";
  std::shared_ptr<const TokenTexts> texts_ = std::make_shared<const TokenTexts>(
      std::vector<std::string>{"", "a"}, std::vector<std::uint32_t>{0}, false);
  Instant now_{1h};
  KnownGrammars known_{[this] { return now_; }};
  int count_ = 0;
};

TEST_F(KnownGrammarsTest, NewGrammarsWithoutEndAreRefusedAndTakeNobodyElsesTime) {
  int taken = 0;
  while (taken < 10'000 && use_another("greedy")) ++taken;
  ASSERT_GT(taken, 3);
  ASSERT_LT(taken, 10'000);
  EXPECT_EQ(use_another("greedy").error().code, Errc::refused);
  EXPECT_TRUE(use_another("modest"));
  now_ += 10s;
  EXPECT_TRUE(use_another("greedy"));
}

// What one identity has found must not show in what another waits for.
TEST_F(KnownGrammarsTest, IdentitiesShareNothing) {
  ASSERT_TRUE(use_another("one"));
  EXPECT_EQ(known_.find("another", kAmbiguous + "# 1\n"), nullptr);
}

}  // namespace
}  // namespace edgedraft
