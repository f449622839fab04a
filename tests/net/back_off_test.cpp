#include "shared/net/dialer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace edgedraft {
namespace {

using namespace std::chrono_literals;

TEST(BackOffTest, GrowsFromMinimumToMaximum) {
  const BackOff options;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    Duration ceiling = 100ms;
    for (std::uint32_t attempt = 0; attempt < 40; ++attempt) {
      const Duration delay = back_off_delay(options, attempt, random);
      EXPECT_GE(delay, std::max<Duration>(100ms, ceiling / 2)) << seed << " " << attempt;
      EXPECT_LE(delay, ceiling) << seed << " " << attempt;
      ceiling = std::min<Duration>(ceiling * 2, 30s);
    }
  }
}

TEST(BackOffTest, SameSeedGivesSameDelays) {
  Random a(5);
  Random b(5);
  for (std::uint32_t attempt = 0; attempt < 10; ++attempt) {
    EXPECT_EQ(back_off_delay({}, attempt, a), back_off_delay({}, attempt, b));
  }
}

// After a server restart its clients must not reconnect all at once.
TEST(BackOffTest, ThousandClientsSpreadOut) {
  std::vector<Duration> delays;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    delays.push_back(back_off_delay({}, 5, random));
  }
  std::sort(delays.begin(), delays.end());
  std::size_t most_in_50ms = 0;
  for (auto it = delays.begin(); it != delays.end(); ++it) {
    most_in_50ms = std::max<std::size_t>(
        most_in_50ms,
        static_cast<std::size_t>(std::upper_bound(it, delays.end(), *it + 50ms) - it));
  }
  EXPECT_LT(most_in_50ms, 80u) << "of 1000 over 1.6 s; an even spread gives 31";
}

}  // namespace
}  // namespace edgedraft
