#include "shared/base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace edgedraft {
namespace {

// Peers of different builds must draw the same: these numbers may never change.
TEST(RandomTest, MatchesReferenceDraws) {
  EXPECT_EQ(mix64(1), 0x5692161D100B05E5u);
  EXPECT_EQ(Random(0)(), 0xE220A8397B1DCDAFu) << "first output of SplitMix64";
}

TEST(RandomTest, UniformsDependOnSeedAndPosition) {
  std::set<double> seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (std::uint64_t position = 0; position < 50; ++position) {
      const double u = uniform_at(seed, position);
      EXPECT_GE(u, 0.0);
      EXPECT_LT(u, 1.0);
      EXPECT_EQ(u, uniform_at(seed, position));
      seen.insert(u);
    }
  }
  EXPECT_EQ(seen.size(), 1000u);
}

// Seed 3; chi squared of 16 cells over 16,000 draws, its 99.9 % point for 15 degrees of freedom.
TEST(RandomTest, UniformsAreUniform) {
  std::array<int, 16> cells{};
  for (std::uint64_t position = 0; position < 16000; ++position) {
    ++cells[static_cast<std::size_t>(uniform_at(3, position) * 16)];
  }
  double chi_squared = 0;
  for (const int count : cells) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_squared, 37.7);
}

TEST(RandomTest, BelowStaysBelow) {
  Random random(5);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.below(7));
  EXPECT_EQ(seen, (std::set<std::uint64_t>{0, 1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace edgedraft
