#include "client/generation/offline/lasting_outage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/client/generation_rig.h"

namespace edgedraft::client {
namespace {

using testing::Answer;
using testing::GenerationRig;
using testing::LinkFault;
using testing::Tokens;
using testing::ToyDrafter;

Tokens forbidden(const Tokens& answer, std::vector<float> logits = std::vector<float>(10, 1.0f),
                 const Tokens& prompt = {}) {
  Tokens text = prompt;
  text.insert(text.end(), answer.begin(), answer.end());
  avoid_circles(text, prompt.size(), logits);
  Tokens forbidden;
  for (std::uint32_t t = 0; t < logits.size(); ++t) {
    if (!std::isfinite(logits[t])) forbidden.push_back(t);
  }
  return forbidden;
}

TEST(AvoidCirclesTest, ForbidsRepeatingFourTokens) {
  EXPECT_EQ(forbidden({}), Tokens{});
  EXPECT_EQ(forbidden({1, 2, 3}), Tokens{});
  EXPECT_EQ(forbidden({1, 2, 3, 4, 1, 2, 3}), Tokens{4});
  EXPECT_EQ(forbidden({1, 2, 3, 4, 1, 2, 3, 9, 1, 2, 3}), (Tokens{4, 9}));
  EXPECT_EQ(forbidden({1, 2, 3, 4, 0, 2, 3}), Tokens{});
  EXPECT_EQ(forbidden({5, 5, 5, 5}), Tokens{5});
}

TEST(AvoidCirclesTest, AllowsRepeatingPrompt) {
  const std::vector<float> logits(10, 1.0f);
  EXPECT_EQ(forbidden({1, 2, 3, 4, 1, 2, 3}, logits, {0, 1, 2, 3, 4}), Tokens{});
  EXPECT_EQ(forbidden({1, 2, 3, 4, 1, 2, 3, 9, 1, 2, 3}, logits, {1, 2, 3, 4}), Tokens{9});
  EXPECT_EQ(forbidden({2, 3, 4, 1, 2, 3}, logits, {1}), Tokens{}) << "the answer repeats nothing";
}

TEST(AvoidCirclesTest, AlwaysLeavesSomeToken) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(forbidden({0, 0, 0, 0}, {1.0f, kNone, kNone}), (Tokens{1, 2}));
  EXPECT_EQ(forbidden({0, 0, 0, 0}, {1.0f, 1.0f, kNone}), (Tokens{0, 2}));
}

// A short outage's text follows the target's distribution, so that as much as possible survives the
// check. A lasting outage's text repeats no four tokens.
TEST(LastingOutageTest, LongOutageTextDoesNotLoop) {
  GenerationRig::Options options{.drafter = ToyDrafter::twin, .tokens_max = 90};
  options.faults = {{.request = 1, .kind = LinkFault::Kind::lost_request, .wait_calls = 1'000'000}};
  options.resync_wait = Duration::zero();
  int circles = 0;
  for (std::uint32_t first = 3; first < 40; ++first) {
    GenerationRig rig(options);
    const Tokens prompt{first, 4, 5};
    const Tokens plain = rig.plain(prompt).tokens;
    const Answer answer = rig.answer(prompt);
    ASSERT_EQ(answer.stats.offline_tokens, answer.tokens.size());
    const std::size_t same = std::min<std::size_t>(
        {plain.size(), answer.tokens.size(), std::size_t{kLastingOutageTokens}});
    EXPECT_TRUE(std::equal(plain.begin(), plain.begin() + static_cast<std::ptrdiff_t>(same),
                           answer.tokens.begin()));
    const auto says_again = [](const Tokens& tokens, std::size_t i) {
      for (std::size_t j = 3; j < i; ++j) {
        if (std::equal(tokens.begin() + static_cast<std::ptrdiff_t>(i - 3),
                       tokens.begin() + static_cast<std::ptrdiff_t>(i + 1),
                       tokens.begin() + static_cast<std::ptrdiff_t>(j - 3))) {
          return true;
        }
      }
      return false;
    };
    for (std::size_t i = kLastingOutageTokens; i < plain.size(); ++i)
      circles += says_again(plain, i);
    for (std::size_t i = kLastingOutageTokens; i < answer.tokens.size(); ++i) {
      EXPECT_FALSE(says_again(answer.tokens, i)) << "token " << i << " of prompt " << first;
    }
  }
  EXPECT_GT(circles, 0) << "some texts loop without the filter";
}

}  // namespace
}  // namespace edgedraft::client
