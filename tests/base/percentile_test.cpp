#include "shared/base/percentile.h"

#include <gtest/gtest.h>

namespace edgedraft {
namespace {

TEST(PercentileTest, ReturnsMembers) {
  EXPECT_EQ(percentile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(percentile({3, 1, 2}, 0.99), 3);
  EXPECT_EQ(percentile({3, 1, 2}, 0), 1);
  EXPECT_EQ(percentile({3, 1, 2}, 1), 3);
  EXPECT_EQ(percentile({}, 0.5), 0);
}

// Experiments, their reports and the benchmarks must pick the same of two middle values.
TEST(PercentileTest, MedianIsLowerOfTwoMiddleValues) {
  EXPECT_EQ(median({4, 1, 3, 2}), 2);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 0.95), 4);
  EXPECT_EQ(median({}), 0);
}

}  // namespace
}  // namespace edgedraft
