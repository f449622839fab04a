#include "netsim/run/calibration.h"

#include <gtest/gtest.h>

namespace edgedraft::netsim {
namespace {

Expectation of(const std::string& profile) {
  return expect(parse_network_profile("[both]\nrate_mbit = 1\n" + profile, "t.toml").value(), 5);
}

TEST(CalibrationTest, ARateIsExpectedWithoutWhatTheProfileLoses) {
  const Expectation even = of("[up]\nloss = 0.25\n");
  EXPECT_DOUBLE_EQ(even.up_bits_per_second, 750'000);
  EXPECT_DOUBLE_EQ(even.down_bits_per_second, 1'000'000);
  // A tenth of the packets are in a burst: of these four in five are lost, of the others one in
  // twenty.
  const std::string bursts =
      "burst_loss = { enter = 0.01, leave = 0.09, loss_in_burst = 0.8, loss_outside = 0.05 }\n";
  EXPECT_NEAR(of(bursts).up_bits_per_second, 875'000, 1);
  EXPECT_NEAR(of(bursts + "loss = 0.2\n").up_bits_per_second, 700'000, 1);
  EXPECT_TRUE(of(bursts).measurable);
  EXPECT_FALSE(of("burst_loss = { enter = 0.1, leave = 0.01 }\n").measurable);
}

}  // namespace
}  // namespace edgedraft::netsim
