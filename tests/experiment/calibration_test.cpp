#include "netsim/run/calibration.h"

#include <gtest/gtest.h>

#include "netsim/run/probe.h"

namespace edgedraft::netsim {
namespace {

Expectation of(const std::string& profile) {
  return expect(parse_network_profile("[both]\nrate_mbit = 1\n" + profile, "t.toml").value(), 5);
}

TEST(CalibrationTest, ExpectedRateExcludesLosses) {
  const Expectation even = of("[up]\nloss = 0.25\n");
  EXPECT_DOUBLE_EQ(even.up_bits_per_second, 750'000);
  EXPECT_DOUBLE_EQ(even.down_bits_per_second, 1'000'000);
  // A tenth of the packets are in a burst. Bursts lose four in five packets, the rest one in
  // twenty.
  const std::string bursts =
      "burst_loss = { enter = 0.01, leave = 0.09, loss_in_burst = 0.8, loss_outside = 0.05 }\n";
  EXPECT_NEAR(of(bursts).up_bits_per_second, 875'000, 1);
  EXPECT_NEAR(of("[up]\n" + bursts + "loss = 0.2\n").up_bits_per_second, 700'000, 1);
}

// A ping has to arrive both ways.
TEST(CalibrationTest, LinkLosingHalfItsPingsIsNotMeasurable) {
  EXPECT_TRUE(of("loss = 0.29\n").measurable);
  EXPECT_FALSE(of("loss = 0.3\n").measurable);
  EXPECT_TRUE(of("[up]\nloss = 0.45\n").measurable);
  EXPECT_FALSE(of("burst_loss = { enter = 0.1, leave = 0.01 }\n").measurable);
}

TEST(CalibrationTest, AllowsTimeForLongMeasurements) {
  EXPECT_NEAR(of("path_ms = 250\n").ping_seconds, 0.5, 0.01);
  EXPECT_GT(of("path_ms = 250\nloss = 0.2\n").ping_seconds, 0.75);
  EXPECT_DOUBLE_EQ(probe_seconds({.server = {}, .pings = 1000}, 0.5), 500);
  // 80 packets of 1,428 bytes each way.
  const double slow = probe_seconds(
      {.server = {}, .pings = 0, .up_bits_per_second = 10'000, .down_bits_per_second = 10'000},
      0.5);
  EXPECT_GT(slow, 2 * 80 * 1.1424);
  EXPECT_LT(slow, 2 * 90 * 1.1424);
}

}  // namespace
}  // namespace edgedraft::netsim
