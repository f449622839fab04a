#include "netsim/link/delivery_trace.h"

#include <gtest/gtest.h>

#include "netsim/link/link.h"
#include "tests/support/expect.h"

namespace edgedraft::netsim {
namespace {

using namespace std::chrono_literals;

TEST(DeliveryTraceTest, DeliversOnePacketPerOpportunity) {
  TracePlayer player(parse_delivery_trace("5\n5\n12\n", "t").value());
  EXPECT_EQ(player.send(0ms, 1500), 5ms);
  EXPECT_EQ(player.send(0ms, 1500), 5ms);
  EXPECT_EQ(player.send(0ms, 1500), 12ms);
  EXPECT_EQ(player.send(0ms, 1500), 17ms);  // again from the start, 12 ms later
}

TEST(DeliveryTraceTest, SharesOpportunitiesByPacketSize) {
  TracePlayer player(parse_delivery_trace("5\n10\n15\n20\n", "t").value());
  EXPECT_EQ(player.send(0ms, 500), 5ms);
  EXPECT_EQ(player.send(0ms, 1000), 5ms);
  EXPECT_EQ(player.send(0ms, 1600), 15ms);
  EXPECT_EQ(player.send(0ms, 1400), 15ms);
}

TEST(DeliveryTraceTest, UnusedOpportunitiesExpire) {
  TracePlayer player(parse_delivery_trace("5\n10\n20\n", "t").value());
  EXPECT_EQ(player.send(6ms, 100), 10ms);
  EXPECT_EQ(player.send(10ms, 100), 10ms);  // the rest serves only packets already queued
  EXPECT_EQ(player.send(11ms, 100), 20ms);
  EXPECT_EQ(player.send(1000ms, 100), 1000ms);  // the end of lap 50
  EXPECT_EQ(player.send(1001ms, 100), 1005ms);
}

TEST(DeliveryTraceTest, LinkFollowsTrace) {
  LinkOptions options;
  options.trace = parse_delivery_trace("2\n4\n6\n8\n", "t").value();
  options.delay.path = 10ms;
  options.queue_packets = 3;
  const Instant start{};
  Link link(options, 1, start);
  Instant arrives{};
  for (int i = 1; i <= 3; ++i) {
    ASSERT_EQ(link.send(start, Link::Packet(1500), &arrives), Fate::delivered);
    EXPECT_EQ(arrives, start + i * 2ms + 10ms);
  }
  EXPECT_EQ(link.send(start, Link::Packet(1500)), Fate::queue_full);
}

TEST(DeliveryTraceTest, ErrorsNameLineAndProblem) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"", "empty"},
      {"0\n0\n", "t:2"},
      {"1\nx\n", "t:2: expected a whole number"},
      {"1\n-4\n", "t:2: expected a whole number"},
      {"1\n2.5\n", "t:2: expected a whole number"},
      {"99999999999\n", "t:1: expected a whole number"},
      {"5\n7\n6\n", "t:3: earlier"},
  };
  for (const auto& c : cases) {
    EXPECT_TRUE(fails_with(parse_delivery_trace(c.text, "t"), Errc::usage, c.message)) << c.text;
  }
  EXPECT_TRUE(parse_delivery_trace("1\r\n2\r\n\n", "t"));
}

}  // namespace
}  // namespace edgedraft::netsim
