#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <thread>

#include "netsim/drivers/command.h"
#include "shared/base/percentile.h"
#include "tests/netsim/measured_link.h"
#include "tests/support/expect.h"
#include "tests/support/skip.h"

namespace edgedraft::netsim {
namespace {

using namespace std::chrono_literals;

// Most by which a round trip may exceed the model, besides the time to wake processes: both ends
// once, the link four times. No round trip may be shorter than the model.
constexpr double kHandlingMs = 3;
constexpr int kWakings = 6;

NetworkProfile profile_of(const std::string& text) {
  return parse_network_profile(text, "test.toml").value();
}

class DriverTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<MeasuredLink> make(const std::string& profile, std::uint64_t seed = 1) {
    return MeasuredLink::make(profile_of(profile), GetParam(), seed, why_not_);
  }
  bool is_proxy() const { return GetParam() == "proxy"; }

  std::string why_not_;
};

#define MAKE_LINK(name, ...)           \
  const auto name = make(__VA_ARGS__); \
  if (!name) EDGEDRAFT_SKIP_WITHOUT(GetParam(), why_not_)

TEST_P(DriverTest, RoundTripsFollowTheirDistribution) {
  MAKE_LINK(link,
            "[both]\nrate_mbit = 50\npath_ms = 5\n"
            "delay = { distribution = \"normal\", mean_ms = 10, deviation_ms = 6 }\n");
  constexpr int kCount = 300;
  // The model's distribution, by another generator; 92 bytes each way take 0.03 ms.
  std::mt19937_64 random(4711);
  std::normal_distribution<double> normal(10, 6);
  std::vector<double> distribution(100'000);
  for (double& ms : distribution) {
    ms = 10.03 + std::max(0.0, normal(random)) + std::max(0.0, normal(random));
  }

  WakingDelay waking;
  const auto measured = link->round_trips(kCount);
  const std::vector<double> delays = waking.stop();
  ASSERT_EQ(measured.size(), static_cast<std::size_t>(kCount));
  auto late = distribution;
  std::uniform_int_distribution<std::size_t> any(0, delays.size() - 1);
  for (double& ms : late) {
    ms += kHandlingMs;
    for (int i = 0; i < kWakings; ++i) ms += delays[any(random)];
  }
  const double limit = smirnov_limit(kCount, distribution.size());
  EXPECT_LT(how_far_below(measured, distribution), limit) << "too early";
  EXPECT_LT(how_far_below(late, measured), limit)
      << "too late: median " << median(measured) << " ms for " << median(distribution)
      << ", wake-up " << median(delays) << ", 90th percentile " << percentile(delays, 0.9);
}

TEST_P(DriverTest, DeliversBytesAtRate) {
  MAKE_LINK(link, "[both]\nrate_mbit = 20\npath_ms = 10\n[up]\nqueue_packets = 500\n");
  const std::string out = link->measure("tcp-sink", {"tcp-blast", "4000000"}).server;
  double bytes = 0;
  double ns = 0;
  ASSERT_EQ(std::sscanf(out.c_str(), "%lf %lf", &bytes, &ns), 2) << out;
  EXPECT_EQ(bytes, 4e6);
  // The stream has 1,448 of 1,500 bytes. TCP's start takes some round trips of 20 ms; the first
  // bytes may be early by the one uncounted segment.
  const double most = 20e6 / 8 * 1448 / 1500;
  EXPECT_LT(bytes / ns * 1e9, 1.01 * most);
  EXPECT_GT(bytes / ns * 1e9, 0.85 * most);
}

TEST_P(DriverTest, DeliversNothingWhileDown) {
  MAKE_LINK(link, "[both]\nrate_mbit = 50\npath_ms = 2\n");
  link->start_echo();
  const auto asking = link->start_asking(100'000);
  ASSERT_TRUE(asking->wait_for_output("\n"));
  ASSERT_TRUE(link->link().fire({.kind = LinkEvent::Kind::down}));
  std::this_thread::sleep_for(100ms);  // packets in flight have arrived
  const std::string before = asking->out();
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(asking->out(), before);
  // The request or the answer, whichever was due.
  const LinkStatistics statistics = link->link().statistics().value();
  EXPECT_GT(statistics.up.down_drops + statistics.down.down_drops, 0u);

  ASSERT_TRUE(link->link().fire({.kind = LinkEvent::Kind::up}));
  for (int i = 0; i < 1000 && asking->out() == before; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_NE(asking->out(), before) << "TCP did not continue";
}

TEST_P(DriverTest, TimedOutageEndsByItselfDespiteNewAddress) {
  for (const bool moves : {false, true}) {
    MAKE_LINK(link, "[both]\nrate_mbit = 50\npath_ms = 2\n");
    link->start_echo();
    ASSERT_TRUE(link->link().fire({.kind = LinkEvent::Kind::down, .duration = 300ms}));
    if (moves) {
      ASSERT_TRUE(link->link().fire({.kind = LinkEvent::Kind::new_address}));
    }
    const auto asking = link->start_asking(3);
    EXPECT_EQ(asking->wait(), 0) << asking->err();
    EXPECT_TRUE(moves || link->link().statistics()->up.down_drops > 0);
  }
}

TEST_P(DriverTest, NewAddressBreaksOldConnections) {
  MAKE_LINK(link, "[both]\nrate_mbit = 50\npath_ms = 2\n");
  link->start_echo();
  const auto old = link->start_asking(100'000);
  ASSERT_TRUE(old->wait_for_output("\n"));
  ASSERT_TRUE(link->link().fire({.kind = LinkEvent::Kind::new_address}));
  std::this_thread::sleep_for(100ms);
  const std::string before = old->out();
  const auto fresh = link->start_asking(20);
  EXPECT_EQ(fresh->wait(), 0) << fresh->err();
  EXPECT_EQ(milliseconds_in(fresh->out()).size(), 21u);
  EXPECT_EQ(old->out(), before);
}

TEST_P(DriverTest, CountsPacketsAndBytes) {
  MAKE_LINK(link, "[both]\nrate_mbit = 50\npath_ms = 1\n");
  ASSERT_EQ(link->round_trips(50).size(), 50u);
  LinkStatistics statistics = link->link().statistics().value();
  // The proxy's closing packets are still in flight.
  const auto under_way = [&] {
    return statistics.up.packets != statistics.up.delivered_packets ||
           statistics.down.packets != statistics.down.delivered_packets;
  };
  for (int i = 0; i < 500 && under_way(); ++i) {
    std::this_thread::sleep_for(10ms);
    statistics = link->link().statistics().value();
  }
  for (const DirectionStatistics* s : {&statistics.up, &statistics.down}) {
    EXPECT_GE(s->packets, 50u);
    EXPECT_GE(s->bytes, 50 * 92u);  // 64 and the headers of IP and UDP
    EXPECT_EQ(s->packets, s->delivered_packets);
    EXPECT_EQ(s->lost + s->queue_drops + s->down_drops, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Drivers, DriverTest, ::testing::Values("tun", "proxy"),
                         [](const auto& test) { return test.param; });

class TunTest : public DriverTest {
 protected:
  struct Sunk {
    double packets = 0;
    double bytes = 0;
    double ns = 0;
    double overtaken = 0;
  };
  static Sunk parse(const std::string& line) {
    Sunk s;
    EXPECT_EQ(
        std::sscanf(line.c_str(), "%lf %lf %lf %lf", &s.packets, &s.bytes, &s.ns, &s.overtaken), 4)
        << line;
    return s;
  }
};

TEST_P(TunTest, DeliversPacketsAtRateInBothDirections) {
  MAKE_LINK(link,
            "[both]\nqueue_packets = 3000\npath_ms = 20\n[up]\nrate_mbit = "
            "10\n[down]\nrate_mbit = 40\n");
  // 1,400 bytes and 28 of headers: 1.1424 ms at 10 Mbit/s, a quarter of that at 40.
  const Sunk up = parse(link->measure("sink", {"blast", "1000", "1400", "0"}).server);
  EXPECT_EQ(up.packets, 1000);
  EXPECT_NEAR(up.ns / 1e6, 999 * 1.1424, 0.02 * 999 * 1.1424);
  const Sunk down = parse(link->measure_down("sink", {"blast", "2000", "1400", "0"}).device);
  EXPECT_EQ(down.packets, 2000);
  EXPECT_NEAR(down.ns / 1e6, 1999 * 0.2856, 0.03 * 1999 * 0.2856);
}

TEST_P(TunTest, LosesConfiguredShareAndKeepsOrder) {
  MAKE_LINK(
      link,
      "[both]\nrate_mbit = 100\n[up]\nloss = 0.05\ndelay = { distribution = \"normal\", mean_ms "
      "= 5, deviation_ms = 3 }\n");
  const Sunk sunk = parse(link->measure("sink", {"blast", "5000", "200", "100"}).server);
  // Five standard deviations of 5,000 draws at 5 %.
  EXPECT_NEAR(sunk.packets, 4750, 5 * std::sqrt(5000 * 0.05 * 0.95));
  EXPECT_EQ(sunk.overtaken, 0);
  const DirectionStatistics up = link->link().statistics()->up;
  EXPECT_EQ(static_cast<double>(up.lost), 5000 - sunk.packets);
}

TEST_P(TunTest, ReorderingProfilesReorder) {
  MAKE_LINK(
      link,
      "[both]\nrate_mbit = 100\nreorder = true\ndelay = { distribution = \"normal\", mean_ms = "
      "5, deviation_ms = 3 }\n");
  const Sunk sunk = parse(link->measure("sink", {"blast", "2000", "200", "200"}).server);
  EXPECT_EQ(sunk.packets, 2000);
  EXPECT_GT(sunk.overtaken, 500);
}

TEST_P(TunTest, FullQueueDropsPackets) {
  MAKE_LINK(link, "[both]\nrate_mbit = 1\nqueue_packets = 20\n");
  const Sunk sunk = parse(link->measure("sink", {"blast", "500", "1000", "0"}).server);
  const DirectionStatistics up = link->link().statistics()->up;
  EXPECT_GT(up.queue_drops, 300u);
  EXPECT_EQ(static_cast<double>(up.queue_drops), 500 - sunk.packets);
}

TEST_P(TunTest, TcpKeepsCongestionControlAfterNewAddress) {
  const auto host = [] {
    return run_command({"cat", "/proc/sys/net/ipv4/tcp_congestion_control"}).value();
  };
  const std::string before = host();
  // Every kernel has reno, and none makes it the default.
  MAKE_LINK(link, "congestion_control = \"reno\"\n[both]\nrate_mbit = 50\npath_ms = 2\n");
  for (int address = 0; address < 2; ++address) {
    const auto outputs = link->measure("tcp-sink", {"tcp-blast", "1000"});
    EXPECT_TRUE(outputs.server.ends_with(" reno\n")) << outputs.server;
    EXPECT_EQ(outputs.device, "reno\n");
    ASSERT_TRUE(link->link().fire({.kind = LinkEvent::Kind::new_address}));
  }
  EXPECT_EQ(host(), before);
  const auto lacking = make_link(
      profile_of("congestion_control = \"vegaz\"\n[both]\nrate_mbit = 50\n"), GetParam(), 1);
  ASSERT_FALSE(lacking);
  EXPECT_TRUE(contains(lacking.error().message, "this kernel has no 'vegaz'"));
}

INSTANTIATE_TEST_SUITE_P(Drivers, TunTest, ::testing::Values("tun"),
                         [](const auto& test) { return test.param; });

// The relay cannot lose bytes, so it models a loss as TCP shows it: one further round trip.
TEST(ProxyTest, LostSegmentArrivesOneRoundTripLater) {
  std::string why_not;
  const auto link = MeasuredLink::make(
      profile_of("[both]\nrate_mbit = 50\npath_ms = 20\nloss = 0.1\n"), "proxy", 3, why_not);
  ASSERT_TRUE(link) << why_not;
  const auto measured = link->round_trips(200);
  ASSERT_EQ(measured.size(), 200u);
  // 40 ms, or 80 with a loss. Even a busy machine delays few round trips from 40 to 80 ms.
  const auto on_time = static_cast<double>(
      std::count_if(measured.begin(), measured.end(), [](double ms) { return ms < 75; }));
  // Both ways must succeed; five standard deviations.
  EXPECT_NEAR(on_time / 200, 0.81, 5 * std::sqrt(0.81 * 0.19 / 200));
  EXPECT_GT(link->link().statistics()->up.lost, 0u);
  EXPECT_TRUE(link->link().approximate());
}

TEST(ProxyTest, ConnectingTakesOneRoundTrip) {
  std::string why_not;
  const auto link =
      MeasuredLink::make(profile_of("[both]\nrate_mbit = 50\npath_ms = 40\n"), "proxy", 1, why_not);
  ASSERT_TRUE(link) << why_not;
  link->start_echo();
  const auto asking = link->start_asking(1);
  ASSERT_EQ(asking->wait(), 0);
  // connect() returns at once, since the relay is near; the first answer shows the delay.
  EXPECT_GT(milliseconds_in(asking->out()).back(), 160);
}

}  // namespace
}  // namespace edgedraft::netsim
