#include "netsim/link/link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "netsim/link/duplex_link.h"
#include "netsim/link/options.h"

namespace edgedraft::netsim {
namespace {

using namespace std::chrono_literals;

const Instant kStart{};

Link::Packet packet_of(std::size_t bytes, unsigned char mark = 0) {
  return Link::Packet(bytes, std::byte{mark});
}

LinkOptions fast() {
  return {.bits_per_second = 100'000'000'000, .queue_packets = 1'000'000};
}

// The delays, in milliseconds, of packets that never wait for each other.
std::vector<double> delays_of(const LinkOptions& options, int count, std::uint64_t seed = 1) {
  Link link(options, seed, kStart);
  std::vector<double> delays;
  for (int i = 0; i < count; ++i) {
    const Instant now = kStart + i * 100s;
    Instant arrives{};
    if (link.send(now, packet_of(1), &arrives) == Fate::delivered) {
      delays.push_back(seconds(arrives - now) * 1e3);
    }
    while (link.receive(now)) {
    }
  }
  return delays;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double share_below(const std::vector<double>& values, double limit) {
  return static_cast<double>(
             std::count_if(values.begin(), values.end(), [&](double v) { return v < limit; })) /
         static_cast<double>(values.size());
}

// Tolerance of a share `p` measured on `count` draws: five standard deviations.
double tolerance(double p, std::size_t count) {
  return 5 * std::sqrt(p * (1 - p) / static_cast<double>(count));
}

// A packet is delayed by exactly its serialisation time plus the propagation delay.
TEST(LinkTest, DeliversAfterSerialisationAndDelay) {
  Link link({.bits_per_second = 8'000'000, .delay = {.path = 20ms}}, 1, kStart);
  ASSERT_EQ(link.send(kStart, packet_of(1000)), Fate::delivered);  // 1,000 B at 1 MB/s: 1 ms

  EXPECT_EQ(link.next_event(), kStart + 21ms);
  EXPECT_FALSE(link.receive(kStart + 21ms - 1ns));
  EXPECT_EQ(link.receive(kStart + 21ms)->size(), 1000u);
  EXPECT_FALSE(link.next_event());
}

TEST(LinkTest, SerialisesPacketsAtItsRate) {
  Link link({.bits_per_second = 8'000'000}, 1, kStart);
  Instant arrives{};
  for (int i = 1; i <= 100; ++i) {
    ASSERT_EQ(link.send(kStart, packet_of(1000), &arrives), Fate::delivered);
    EXPECT_EQ(arrives, kStart + i * 1ms);
  }
  // A pause clears the queue.
  ASSERT_EQ(link.send(kStart + 1s, packet_of(500), &arrives), Fate::delivered);
  EXPECT_EQ(arrives, kStart + 1s + 500us);
}

TEST(LinkTest, DropsPacketsBeyondQueue) {
  Link link({.bits_per_second = 8'000'000, .delay = {.path = 1s}, .queue_packets = 10}, 1, kStart);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(link.send(kStart, packet_of(1000)), Fate::delivered);
  EXPECT_EQ(link.send(kStart, packet_of(1000)), Fate::queue_full);
  // 1 ms later one packet has left the queue, though it has not arrived.
  EXPECT_EQ(link.send(kStart + 1ms, packet_of(1000)), Fate::delivered);
  EXPECT_EQ(link.send(kStart + 1ms, packet_of(1000)), Fate::queue_full);
}

TEST(LinkTest, KeepsOrderUnlessReorderingIsOn) {
  for (const bool reorder : {false, true}) {
    LinkOptions options = fast();
    options.delay = {.kind = DelayDistribution::Kind::normal, .centre = 20ms, .deviation = 10ms};
    options.reorder = reorder;
    Link link(options, 7, kStart);
    for (int i = 0; i < 200; ++i) {
      link.send(kStart + i * 1ms, packet_of(1, static_cast<unsigned char>(i)));
    }
    int overtaken = 0;
    unsigned highest = 0;
    while (const auto packet = link.receive(kStart + 10s)) {
      const unsigned number = std::to_integer<unsigned>((*packet)[0]);
      overtaken += number < highest;
      highest = std::max(highest, number);
    }
    EXPECT_EQ(overtaken > 20, reorder) << overtaken;
    if (!reorder) {
      EXPECT_EQ(overtaken, 0);
    }
  }
}

TEST(LinkTest, NormalDelayHasConfiguredMeanAndIsClippedAtZero) {
  LinkOptions options = fast();
  options.delay = {
      .kind = DelayDistribution::Kind::normal, .path = 4500us, .centre = 10ms, .deviation = 10ms};
  const auto delays = delays_of(options, 20'000);
  EXPECT_GE(*std::min_element(delays.begin(), delays.end()), 4.5);
  // Phi(-1) of all draws are below zero; E max(0, X) = 10 Phi(1) + 10 phi(1).
  EXPECT_NEAR(share_below(delays, 4.5001), 0.158655, tolerance(0.158655, delays.size()));
  EXPECT_NEAR(share_below(delays, 14.5), 0.5, tolerance(0.5, delays.size()));
  EXPECT_NEAR(share_below(delays, 24.5), 0.841345, tolerance(0.841345, delays.size()));
  EXPECT_NEAR(mean_of(delays), 4.5 + 10.8332, 5 * 10 / std::sqrt(20'000.0));
  EXPECT_NEAR(seconds(mean_delay(options.delay)) * 1e3, 4.5 + 10.8332, 0.01);
}

TEST(LinkTest, ParetoDelayHasHeavyTail) {
  LinkOptions options = fast();
  options.delay = {.kind = DelayDistribution::Kind::pareto, .centre = 10ms, .shape = 2.5};
  const auto delays = delays_of(options, 20'000);
  EXPECT_GE(*std::min_element(delays.begin(), delays.end()), 10.0);
  for (const double times : {1.2, 2.0, 5.0, 10.0}) {
    const double above = std::pow(times, -2.5);
    EXPECT_NEAR(1 - share_below(delays, 10 * times), above, tolerance(above, delays.size()));
  }
}

TEST(LinkTest, TableDelayPassesThroughItsPoints) {
  LinkOptions options = fast();
  options.delay = {.kind = DelayDistribution::Kind::table,
                   .points = {{0, 5ms}, {0.5, 9ms}, {0.95, 18ms}, {1, 100ms}}};
  const auto delays = delays_of(options, 20'000);
  EXPECT_NEAR(share_below(delays, 7), 0.25, tolerance(0.25, delays.size()));
  EXPECT_NEAR(share_below(delays, 9), 0.5, tolerance(0.5, delays.size()));
  EXPECT_NEAR(share_below(delays, 18), 0.95, tolerance(0.95, delays.size()));
  EXPECT_LE(*std::max_element(delays.begin(), delays.end()), 100.0);
}

TEST(LinkTest, DelayHoldsForConfiguredTime) {
  LinkOptions options = fast();
  options.delay = {
      .kind = DelayDistribution::Kind::normal, .centre = 50ms, .deviation = 10ms, .hold = 20ms};
  options.reorder = true;
  Link link(options, 3, kStart);
  std::vector<Duration> delays;
  for (int i = 0; i < 60; ++i) {
    Instant arrives{};
    ASSERT_EQ(link.send(kStart + i * 1ms, packet_of(1), &arrives), Fate::delivered);
    delays.push_back(arrives - kStart - i * 1ms);
  }
  for (std::size_t i = 1; i < 60; ++i) {
    EXPECT_EQ(delays[i] != delays[i - 1], i % 20 == 0) << i;
  }
}

TEST(LinkTest, IdleSenderWaitsForGrantAndLaterPacketsQueue) {
  LinkOptions options = fast();
  options.rest = {{.after = 10ms, .least = 5ms, .most = 15ms},
                  {.after = 1s, .least = 100ms, .most = 100ms}};
  Link link(options, 3, kStart);
  const auto delay_at = [&](Duration at) {
    Instant arrives{};
    EXPECT_EQ(link.send(kStart + at, packet_of(1), &arrives), Fate::delivered);
    return arrives - kStart - at;
  };
  std::vector<double> waits;
  for (int i = 1; i < 2000; ++i) {
    const Duration wait = delay_at(i * 50ms);
    EXPECT_GE(wait, 5ms);
    EXPECT_LE(wait, 15ms + 1us);
    waits.push_back(1e3 * seconds(wait));
    EXPECT_NEAR(1e3 * seconds(delay_at(i * 50ms + 1ms)), waits.back() - 1.0, 0.01) << "in order";
    EXPECT_LT(delay_at(i * 50ms + wait + 5ms), 1us) << "no wait while sending";
  }
  EXPECT_NEAR(mean_of(waits), 10.0, 5 * 10 / std::sqrt(12.0 * 2000));
  EXPECT_GE(delay_at(200s), 100ms) << "the longest rest applies";
}

TEST(LinkTest, CompetingFlowFillsAndHalvesQueue) {
  LinkOptions options{.bits_per_second = 8'000'000};
  options.competing = CompetingFlow{.queue_bytes = 50'000, .period = 2s};
  Link link(options, 3, kStart);
  double least = 1e9;
  double most = 0;
  double before = 0;
  int drops = 0;
  bool falling = false;
  for (int i = 0; i < 2000; ++i) {
    Instant arrives{};
    ASSERT_EQ(link.send(kStart + i * 10ms, packet_of(1), &arrives), Fate::delivered);
    const double ms = 1e3 * seconds(arrives - kStart - i * 10ms);
    least = std::min(least, ms);
    most = std::max(most, ms);
    // In order: the queue empties over several packets.
    if (ms < before - 5 && !falling) ++drops;
    falling = ms < before - 5;
    before = ms;
  }
  EXPECT_NEAR(least, 25, 1);
  EXPECT_NEAR(most, 50, 1);
  EXPECT_NEAR(drops, 10, 1) << "one loss per two seconds";

  options.competing->share = 0.3;
  Link shared(options, 3, kStart);
  int there = 0;
  for (int i = 0; i < 20'000; ++i) {
    Instant arrives{};
    shared.send(kStart + i * 1s, packet_of(1), &arrives);
    there += arrives - kStart - i * 1s > 20ms;
  }
  // 1,000 spells of ten periods.
  EXPECT_NEAR(there / 20'000.0, 0.3, tolerance(0.3, 1000));
}

TEST(LinkTest, LosesConfiguredShareIndependently) {
  LinkOptions options = fast();
  options.loss = 0.05;
  const int count = 40'000;
  Link link(options, 11, kStart);
  int lost = 0;
  int twice = 0;
  bool before = false;
  for (int i = 0; i < count; ++i) {
    const bool now = link.send(kStart + i * 1ms, packet_of(1)) == Fate::lost;
    lost += now;
    twice += now && before;
    before = now;
  }
  EXPECT_NEAR(lost / double{count}, 0.05, tolerance(0.05, count));
  EXPECT_NEAR(twice / double{count}, 0.0025, tolerance(0.0025, count));
}

TEST(LinkTest, BurstsMatchGilbertElliottChain) {
  LinkOptions options = fast();
  options.burst_loss = GilbertElliott{.enter = 0.01, .leave = 0.25};
  const int count = 200'000;
  Link link(options, 5, kStart);
  std::vector<double> bursts;
  int length = 0;
  int lost = 0;
  for (int i = 0; i < count; ++i) {
    if (link.send(kStart + i * 1ms, packet_of(1)) == Fate::lost) {
      ++length;
      ++lost;
    } else if (length > 0) {
      bursts.push_back(length);
      length = 0;
    }
  }
  // Lengths are geometric with mean 4 and standard deviation sqrt(12).
  const double n = static_cast<double>(bursts.size());
  EXPECT_NEAR(mean_of(bursts), 4.0, 5 * std::sqrt(12.0 / n));
  EXPECT_NEAR(share_below(bursts, 1.5), 0.25, tolerance(0.25, bursts.size()));
  // The bad state holds for enter / (enter + leave) of the time. Draws within a burst are
  // dependent, so the tolerance counts bursts.
  const double bad = 0.01 / 0.26;
  EXPECT_NEAR(lost / double{count}, bad, 5 * bad * std::sqrt(2 / n));
}

TEST(LinkTest, DeliversAcceptedPacketsDespiteOutage) {
  DuplexLink link({.bits_per_second = 8'000'000, .delay = {.path = 10ms}},
                  {.bits_per_second = 8'000'000, .delay = {.path = 10ms}}, 1, kStart);
  ASSERT_EQ(link.send(Direction::up, kStart, packet_of(1000)), Fate::delivered);
  link.fire(kStart + 1ms, {.kind = LinkEvent::Kind::down, .duration = 5s});
  EXPECT_EQ(link.send(Direction::up, kStart + 2ms, packet_of(1000)), Fate::link_down);
  EXPECT_EQ(link.send(Direction::down, kStart + 2ms, packet_of(1000)), Fate::link_down);
  EXPECT_TRUE(link.receive(Direction::up, kStart + 11ms));
  EXPECT_EQ(link.next_event(), kStart + 1ms + 5s);
  EXPECT_EQ(link.send(Direction::down, kStart + 5s, packet_of(1000)), Fate::link_down);
  EXPECT_EQ(link.send(Direction::down, kStart + 1ms + 5s, packet_of(1000)), Fate::delivered);
  EXPECT_EQ(link.statistics().up.down_drops, 1u);
  EXPECT_EQ(link.statistics().up.delivered_packets, 1u);
  EXPECT_EQ(link.statistics().down.packets, 3u);
}

TEST(LinkTest, FatesDependOnSeedOnly) {
  LinkOptions options = fast();
  options.loss = 0.2;
  options.delay = {.kind = DelayDistribution::Kind::normal, .centre = 10ms, .deviation = 5ms};
  EXPECT_EQ(delays_of(options, 500, 9), delays_of(options, 500, 9));
  EXPECT_NE(delays_of(options, 500, 9), delays_of(options, 500, 10));
  // Further packets do not change earlier ones.
  const auto longer = delays_of(options, 1000, 9);
  const auto shorter = delays_of(options, 500, 9);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

}  // namespace
}  // namespace edgedraft::netsim
