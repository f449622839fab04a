#include "netsim/profile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/e2e/process.h"
#include "tests/support/expect.h"

namespace edgedraft::netsim {
namespace {

using namespace std::chrono_literals;

TEST(ProfileTest, ShippedProfilesAreValidAndNameTheirSource) {
  const auto names = shipped_network_profiles();
  EXPECT_EQ(names.size(), 13u);
  for (const std::string& name : names) {
    const auto profile = read_network_profile(name).value();
    EXPECT_EQ(profile.name, name);
    EXPECT_GT(profile.source.size(), 40u) << name;
    EXPECT_GT(profile.up.bits_per_second, 0u) << name;
  }
}

TEST(ProfileTest, PaperProfileHasFiguresOfPaper) {
  const NetworkProfile profile = read_network_profile("paper-4g").value();
  for (const LinkOptions* link : {&profile.up, &profile.down}) {
    EXPECT_EQ(link->bits_per_second, 20'000'000u);
    EXPECT_EQ(link->delay.kind, DelayDistribution::Kind::normal);
    EXPECT_EQ(link->delay.centre, 21ms);
    EXPECT_EQ(link->delay.deviation, 19ms);
    EXPECT_EQ(link->delay.path, 4500us);
    EXPECT_DOUBLE_EQ(link->loss, 0.001);
    EXPECT_TRUE(link->reorder);
  }
}

TEST(ProfileTest, DirectionOverridesBoth) {
  const NetworkProfile profile = parse_network_profile(R"(
source = "a test"
[both]
rate_mbit = 10
path_ms = 3
loss = 0.5
[up]
rate_mbit = 1.5
hold_ms = 20
delay = { distribution = "pareto", least_ms = 2, shape = 3 }
burst_loss = { enter = 0.1, leave = 0.5, loss_in_burst = 0.7 }
[down]
delay = { distribution = "table", samples_ms = [30, 10, 20] }
queue_packets = 7
rest = [{ after_ms = 10, least_ms = 5, most_ms = 15 }, { after_ms = 200, least_ms = 6, most_ms = 6 }]
competing = { queue_kb = 64, period_s = 1.5, share = 0.25 }
)",
                                                       "x/own.toml")
                                     .value();
  EXPECT_EQ(profile.name, "own");
  EXPECT_EQ(profile.up.bits_per_second, 1'500'000u);
  EXPECT_EQ(profile.down.bits_per_second, 10'000'000u);
  EXPECT_EQ(profile.up.delay.path, 3ms);
  EXPECT_EQ(profile.up.delay.hold, 20ms);
  EXPECT_EQ(profile.up.delay.kind, DelayDistribution::Kind::pareto);
  EXPECT_DOUBLE_EQ(profile.up.burst_loss->loss_in_burst, 0.7);
  EXPECT_FALSE(profile.down.burst_loss);
  EXPECT_EQ(profile.down.queue_packets, 7u);
  EXPECT_TRUE(profile.up.rest.empty());
  ASSERT_EQ(profile.down.rest.size(), 2u);
  EXPECT_EQ(profile.down.rest[0].after, 10ms);
  EXPECT_EQ(profile.down.rest[0].most, 15ms);
  EXPECT_EQ(profile.down.rest[1].least, 6ms);
  ASSERT_TRUE(profile.down.competing);
  EXPECT_EQ(profile.down.competing->queue_bytes, 64'000u);
  EXPECT_EQ(profile.down.competing->period, 1500ms);
  EXPECT_DOUBLE_EQ(profile.down.competing->share, 0.25);
  ASSERT_EQ(profile.down.delay.points.size(), 3u);
  EXPECT_EQ(profile.down.delay.points[1], (std::pair{0.5, Duration(20ms)}));
}

TEST(ProfileTest, OrdersAndRepeatsEvents) {
  const NetworkProfile profile = parse_network_profile(R"(
repeat_s = 60
both = { rate_mbit = 1 }
[[event]]
at_s = 30
action = "new-address"
[[event]]
at_s = 12
action = "down"
for_s = 8
[[outage]]
after_tokens = 50
for_s = 2.5
[[outage]]
after_tokens = 25
)",
                                                       "e.toml")
                                     .value();
  const auto events = events_until(profile, 100s);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].at, 12s);
  EXPECT_EQ(events[0].duration, 8s);
  EXPECT_EQ(events[1].kind, LinkEvent::Kind::new_address);
  EXPECT_EQ(events[2].at, 72s);
  EXPECT_EQ(events[3].at, 90s);
  ASSERT_EQ(profile.outages.size(), 2u);
  EXPECT_EQ(profile.outages[0].duration, 0s);
  EXPECT_EQ(profile.outages[1].after_tokens, 50u);
  EXPECT_EQ(profile.outages[1].duration, 2500ms);
}

TEST(ProfileTest, ErrorsNameFileLineKeyAndRange) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"[both]\nrate_mbit = 0\n",
       "p.toml:2: both.rate_mbit: 0 is out of range; give a number from"},
      {"[both]\nrate_mbit = \"5\"\n", "p.toml:2: both.rate_mbit: not a number"},
      {"[both]\nrate_mbit = nan\n", "p.toml:2: both.rate_mbit"},
      {"[both]\nrate_mbit = 1\nrest = [{ after_ms = 1, least_ms = 3, most_ms = 2 }]\n",
       "both.rest.most_ms: must be at least least_ms"},
      {"[both]\nrate_mbit = 1\nrest = [{ after_ms = 9, least_ms = 1, most_ms = 2 }, { after_ms = "
       "8, least_ms = 1, most_ms = 2 }]\n",
       "both.rest.after_ms: must exceed the previous entry's"},
      {"[both]\nrate_mbit = 1\ncompeting = { queue_kb = 10 }\n",
       "both.competing.period_s: is missing"},
      {"[both]\nrate_mbit = 5\nlos = 0.1\n",
       "p.toml:3: both.los: unknown key; allowed here: burst"},
      {"[both]\nrate_mbit = 5\nloss = 1.5\n", "p.toml:3: both.loss: 1.5 is out of range"},
      {"[up]\nrate_mbit = 5\n", "down: no rate"},
      {"[both]\nrate_mbit = 5\nqueue_packets = 0\n", "p.toml:3: both.queue_packets"},
      {"[both]\nrate_mbit = 5\ndelay = { distribution = \"gauss\" }\n",
       "p.toml:3: both.delay.distribution: 'gauss' is unknown; give one of constant, normal, "
       "pareto, table"},
      {"[both]\nrate_mbit = 5\ndelay = { distribution = \"normal\", mean_ms = 5 }\n",
       "both.delay.deviation_ms: is missing"},
      {"[both]\nrate_mbit = 5\ndelay = { distribution = \"normal\", mean_ms = -1, deviation_ms = 1 "
       "}\n",
       "both.delay.mean_ms: -1 is out of range"},
      {"[both]\nrate_mbit = 5\ndelay = { distribution = \"pareto\", least_ms = 1, shape = 0.5 }\n",
       "both.delay.shape: 0.5 is out of range"},
      {"[both]\nrate_mbit = 5\ndelay = { distribution = \"table\", points = [[0, 1], [0.5, 0.5], "
       "[1, 3]] "
       "}\n",
       "both.delay.points: delays must not decrease"},
      {"[both]\nrate_mbit = 5\ndelay = { distribution = \"table\", points = [[0.1, 1], [1, 3]] }\n",
       "both.delay.points: shares must start at 0"},
      {"[both]\nrate_mbit = 5\ndelay = { distribution = \"table\" }\n", "either points"},
      {"[both]\nrate_mbit = 5\nburst_loss = { enter = 0.1, leave = 0 }\n",
       "both.burst_loss.leave: 0 is out of range"},
      {"[both]\nrate_mbit = 5\ntrace = \"t\"\n", "p.toml:3: both.trace: the trace sets the rate"},
      {"[both]\ntrace = \"nowhere.down\"\n", "nowhere.down: No such file"},
      {"[both]\ntrace = \"-\"\n", "both.trace: -: No such file"},
      {"both = { rate_mbit = 5 }\n[[event]]\nat_s = 1\naction = \"stop\"\n",
       "p.toml:4: event.action: 'stop' is unknown; give one of down, up, new-address"},
      {"both = { rate_mbit = 5 }\n[[event]]\naction = \"up\"\n", "event.at_s: is missing"},
      {"both = { rate_mbit = 5 }\n[[event]]\nat_s = 1\naction = \"up\"\nfor_s = 2\n",
       "p.toml:5: event.for_s: is allowed only with action"},
      {"repeat_s = 5\nboth = { rate_mbit = 5 }\n[[event]]\nat_s = 6\naction = \"up\"\n",
       "p.toml:1: repeat_s"},
      {"both = { rate_mbit = 5 }\n[[outage]]\nfor_s = 1\n", "outage.after_tokens: is missing"},
      {"both = { rate_mbit = 5 }\nseed = 3\n", "p.toml:2: seed: unknown key"},
      {"both = { rate_mbit = 5 }\nname = \"a|b\"\n", "p.toml:2: name: expected a name without |"},
      {"both = { rate_mbit = 5 }\nname = \"a\\nb\"\n", "p.toml:2: name: expected a name without |"},
      {"both = { rate_mbit = 5 }\nname = \"a\\u009bb\"\n", "without | and control characters"},
      {"both = 5\n", "p.toml:1: both: not a table"},
      {"[both\n", "p.toml:1"},
  };
  for (const auto& c : cases) {
    const auto profile = parse_network_profile(c.text, "p.toml");
    ASSERT_FALSE(profile) << c.text;
    EXPECT_TRUE(contains(profile.error().message, c.message)) << c.text << profile.error().message;
  }
}

TEST(ProfileTest, ChecksNameTakenFromFile) {
  const auto profile = parse_network_profile("both = { rate_mbit = 5 }\n", "a\nb.toml");
  ASSERT_FALSE(profile);
  EXPECT_TRUE(contains(profile.error().message, "name: expected a name without"));
}

TEST(ProfileTest, FindsTracesBesideItsFile) {
  const test::TemporaryDirectory scratch;
  std::ofstream(scratch / "cell.down") << "1\n2\n3\n";
  std::ofstream(scratch / "bad.down") << "1\noops\n";
  std::ofstream(scratch / "own.toml") << "[up]\nrate_mbit = 1\n[down]\ntrace = \"cell.down\"\n";
  std::ofstream(scratch / "bad.toml") << "[both]\ntrace = \"bad.down\"\n";
  std::ofstream(scratch / "beside.toml")
      << "[both]\nrate_mbit = 1\ncompeting = { queue_kb = 10, period_s = 1 }\n"
         "[down]\ntrace = \"cell.down\"\n";
  const auto profile = read_network_profile((scratch / "own.toml").string()).value();
  EXPECT_EQ(profile.down.trace->at_ms, (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_FALSE(profile.up.trace);
  const auto bad = read_network_profile((scratch / "bad.toml").string());
  ASSERT_FALSE(bad);
  EXPECT_TRUE(contains(bad.error().message, "bad.down:2: expected a whole number"));
  const auto beside = read_network_profile((scratch / "beside.toml").string());
  ASSERT_FALSE(beside);
  EXPECT_TRUE(contains(beside.error().message, "down: competing needs rate_mbit"));
}

TEST(ProfileTest, ReportsReasonForUnreadableFile) {
  const test::TemporaryDirectory scratch;
  std::filesystem::create_symlink("loop.toml", scratch / "loop.toml");
  std::filesystem::create_directory(scratch / "cell.down");
  std::ofstream(scratch / "own.toml") << "[both]\ntrace = \"cell.down\"\n";
  const std::pair<const char*, const char*> cases[] = {
      {"none.toml", "none.toml: No such file or directory"},
      {"loop.toml", "loop.toml: Too many levels of symbolic links"},
      {"cell.down", "cell.down: is a folder"},
      {"own.toml", "cell.down: is a folder"}};
  for (const auto& [name, message] : cases) {
    const auto profile = read_network_profile((scratch / name).string());
    EXPECT_TRUE(fails_with(profile, Errc::io, message)) << name;
  }
}

TEST(ProfileTest, UnknownNameListsKnownProfiles) {
  const auto profile = read_network_profile("6g");
  ASSERT_FALSE(profile);
  EXPECT_TRUE(contains(profile.error().message, "paper-5g"));
  EXPECT_FALSE(read_network_profile("./none.toml"));
  EXPECT_FALSE(read_network_profile("/"));
}

}  // namespace
}  // namespace edgedraft::netsim
