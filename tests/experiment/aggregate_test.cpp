#include "netsim/report/aggregate.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

namespace edgedraft::netsim {
namespace {

std::map<std::uint32_t, double> together(const std::vector<Run>& runs) {
  std::vector<const Run*> pointers;
  for (const Run& run : runs) pointers.push_back(&run);
  return rates_together(pointers);
}

// An answer of one of a trial's two clients; ten tokens at each of these times since its request.
Run answer(const std::string& trial, double asked_at_s, std::initializer_list<double> times) {
  Run run{};
  run.trial = trial;
  run.clients = 2;
  run.asked_at_s = asked_at_s;
  for (const double at_s : times) run.arrivals.push_back({.at_s = at_s, .tokens = 10});
  return run;
}

using Rates = std::map<std::uint32_t, double>;

// Clients start one after another. Tokens before all have asked, or after one has ended, do not
// count for their combined rate.
TEST(AggregateTest, CountsTokensWhileAllClientsAreActive) {
  // From 1.5 s to 2.5 s: 20 tokens of the first client and 10 of the second.
  EXPECT_EQ(together({answer("t", 0.5, {0.5, 1.5, 2}), answer("t", 1.5, {0.5, 1.5, 2.5})}),
            (Rates{{2, 30}}));
  // From 1 s to 3 s, when the first client got nothing.
  EXPECT_EQ(together({answer("t", 0, {4}), answer("t", 1, {1, 2})}), (Rates{{2, 10}}));
}

TEST(AggregateTest, NonOverlappingClientsHaveNoCombinedRate) {
  EXPECT_TRUE(together({answer("t", 0.5, {0.25, 0.5}), answer("t", 1.5, {0.5})}).empty());
}

// A trial whose answers barely overlap counts only for the overlap.
TEST(AggregateTest, WeighsTrialsByOverlap) {
  EXPECT_EQ(together({answer("long", 0, {1, 2, 3}), answer("long", 0, {1, 2, 3}),
                      answer("short", 0, {1}), answer("short", 0.75, {1.25})}),
            (Rates{{2, (60.0 + 10.0) / (3 + 0.25)}}));
}

TEST(AggregateTest, SingleClientUsesAnswerTime) {
  auto alone = answer("t", 1, {});
  alone.clients = 1;
  alone.tokens = 30;
  alone.seconds = 2;
  EXPECT_EQ(together({alone}), (Rates{{1, 15}}));
}

TEST(AggregateTest, FailedClientLeavesTrialWithoutCombinedRate) {
  std::vector<netsim::Run> runs{answer("t", 0, {1, 2}), answer("t", 0, {1, 2})};
  runs[1].failure = "no server";
  EXPECT_TRUE(together(runs).empty());
}

}  // namespace
}  // namespace edgedraft::netsim
