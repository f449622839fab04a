#include "tests/bench/fingerprint.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgedraft::bench {
namespace {

// An answer to prompt `prompt` that looks like one to `seen_as`: a packet with a size of its own.
Trace answer(std::size_t prompt, std::size_t seen_as) {
  const auto bytes = static_cast<std::uint32_t>(1000 + 100 * seen_as);
  return {.prompt = prompt,
          .seconds = 1.0,
          .packets = {{.seconds = 0.1, .up = true, .bytes = bytes},
                      {.seconds = 0.2, .up = false, .bytes = bytes}}};
}

Fingerprinter who_knows(std::size_t prompts) {
  std::vector<Trace> known;
  for (std::size_t p = 0; p < prompts; ++p) known.insert(known.end(), 2, answer(p, p));
  return Fingerprinter(known);
}

// Eight answers to a prompt are right or wrong together: they count as one.
TEST(FingerprintTest, RepeatedGuessesOfAPromptKeepInterval) {
  std::vector<Trace> few;
  std::vector<Trace> many;
  for (std::size_t p = 0; p < 10; ++p) {
    const Trace trace = answer(p, p < 5 ? p : 0);
    few.push_back(trace);
    many.insert(many.end(), 8, trace);
  }
  const netsim::Estimate once = right_share(who_knows(10), few);
  const netsim::Estimate eight_times = right_share(who_knows(10), many);
  EXPECT_DOUBLE_EQ(once.value, 0.5);
  EXPECT_DOUBLE_EQ(eight_times.value, 0.5);
  EXPECT_TRUE(eight_times.known);
  EXPECT_DOUBLE_EQ(eight_times.low, once.low);
  EXPECT_DOUBLE_EQ(eight_times.high, once.high);
  EXPECT_GT(eight_times.high - eight_times.low, 0.4);
}

TEST(FingerprintTest, TooFewPromptsHaveNoInterval) {
  const std::vector<Trace> all{answer(0, 0), answer(1, 1), answer(2, 2)};
  const netsim::Estimate share = right_share(who_knows(3), all);
  EXPECT_DOUBLE_EQ(share.value, 1.0);
  EXPECT_FALSE(share.known);
}

}  // namespace
}  // namespace edgedraft::bench
