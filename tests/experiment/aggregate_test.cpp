#include "netsim/report/aggregate.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace edgedraft::netsim {
namespace {

std::map<std::uint32_t, std::vector<double>> together(const std::vector<Run>& runs) {
  std::vector<const Run*> pointers;
  for (const Run& run : runs) pointers.push_back(&run);
  return rates_together(pointers);
}

Run answer(double asked_at_s, double seconds, double tokens) {
  Run run{};
  run.trial = "t";
  run.clients = 2;
  run.asked_at_s = asked_at_s;
  run.seconds = seconds;
  run.tokens = tokens;
  return run;
}

// Clients are started one after another; what they get is no faster for that.
TEST(AggregateTest, ClientsTogetherTakeFromTheFirstOnesAskingToTheLastOnesEnd) {
  const std::vector<netsim::Run> apart{answer(0.5, 2, 30), answer(1.5, 3, 50)};
  EXPECT_EQ(together(apart), (std::map<std::uint32_t, std::vector<double>>{{2, {20}}}));
  const std::vector<netsim::Run> within{answer(0.5, 4, 30), answer(1.5, 1, 50)};
  EXPECT_EQ(together(within), (std::map<std::uint32_t, std::vector<double>>{{2, {20}}}));
}

TEST(AggregateTest, ATrialWithAClientThatFailedHasNoRateTogether) {
  std::vector<netsim::Run> runs{answer(0, 2, 30), answer(0, 2, 30)};
  runs[1].failure = "no server";
  EXPECT_TRUE(together(runs).empty());
}

}  // namespace
}  // namespace edgedraft::netsim
