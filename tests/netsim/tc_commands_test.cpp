#include "netsim/drivers/tc_commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "netsim/drivers/command.h"
#include "netsim/link/delivery_trace.h"
#include "tests/support/expect.h"

namespace edgedraft::netsim {
namespace {

std::vector<std::string> lines_of(const std::vector<TcCommand>& commands, TcCommand::End end) {
  std::vector<std::string> lines;
  for (const TcCommand& command : commands) {
    if (command.end == end) lines.push_back(shell_line(command.argv));
  }
  return lines;
}

std::string netem_of(const std::vector<TcCommand>& commands, TcCommand::End end) {
  for (const std::string& line : lines_of(commands, end)) {
    if (line.find(" netem ") != std::string::npos) return line;
  }
  return {};
}

NetworkProfile profile_of(const char* text) {
  return parse_network_profile(text, "t.toml").value();
}

TEST(TcCommandsTest, ShapesEachDirectionAtItsSender) {
  const auto profile = profile_of(
      "[up]\nrate_mbit = 5\npath_ms = 2\n"
      "[down]\nrate_mbit = 20\npath_ms = 8\nloss = 0.005\n");
  const auto plan = plan_tc_link(profile).value();
  EXPECT_TRUE(plan.tables.empty());
  EXPECT_EQ(netem_of(plan.commands, TcCommand::End::device),
            "tc qdisc add dev edgedraft0 root handle 1: netem limit 1002 delay 2000us rate "
            "5000000bit");
  EXPECT_EQ(netem_of(plan.commands, TcCommand::End::server),
            "tc qdisc add dev edgedraft0 root handle 1: netem limit 1015 delay 8000us loss 0.5% "
            "rate 20000000bit");
}

TEST(TcCommandsTest, ReorderingLinksLeaveTheRateToTbf) {
  const auto plan = plan_tc_link(read_network_profile("paper-5g").value()).value();
  for (const auto end : {TcCommand::End::server, TcCommand::End::device}) {
    EXPECT_EQ(netem_of(plan.commands, end).find("rate"), std::string::npos);
    const auto lines = lines_of(plan.commands, end);
    EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
      return line.find("parent 1:1 handle 2: tbf rate 50000000bit") != std::string::npos;
    }));
  }
}

TEST(TcCommandsTest, MapsBurstsToNetemGilbertElliott) {
  const auto plan = plan_tc_link(profile_of("[both]\nrate_mbit = 5\nloss = 0.1\nburst_loss = { "
                                            "enter = 0.01, leave = 0.2, loss_in_burst = 0.5 }\n"))
                        .value();
  EXPECT_TRUE(
      contains(netem_of(plan.commands, TcCommand::End::device), "loss gemodel 1% 20% 55% 10%"));
}

// netem's delay is the mean plus jitter times a table entry over 8192.
TEST(TcCommandsTest, TableReproducesDistribution) {
  const auto plan =
      plan_tc_link(profile_of("[both]\nrate_mbit = 5\ndelay = { distribution = \"table\", "
                              "points = [[0, 10], [0.5, 20], [1, 90]] }\n"))
          .value();
  ASSERT_EQ(plan.tables.size(), 2u);
  double mean_us = 0;
  double jitter_us = 0;
  const std::string netem = netem_of(plan.commands, TcCommand::End::device);
  ASSERT_EQ(
      std::sscanf(netem.c_str() + netem.find("delay"), "delay %lfus %lfus", &mean_us, &jitter_us),
      2)
      << netem;
  std::istringstream entries(plan.tables[0].text);
  std::vector<double> delays_ms;
  for (double entry = 0; entries >> entry;) {
    ASSERT_LE(std::abs(entry), 32767);
    delays_ms.push_back((mean_us + jitter_us * entry / 8192) / 1000);
  }
  ASSERT_EQ(delays_ms.size(), 4096u);
  EXPECT_NEAR(delays_ms[0], 10, 0.02);
  EXPECT_NEAR(delays_ms[1023], 15, 0.02);
  EXPECT_NEAR(delays_ms[2047], 20, 0.04);
  EXPECT_NEAR(delays_ms[3071], 55, 0.04);
  EXPECT_NEAR(delays_ms[4095], 90, 0.04);
}

TEST(TcCommandsTest, DownLosesEverythingAndUpRestoresLoss) {
  const auto profile = profile_of("[both]\nrate_mbit = 5\npath_ms = 2\nloss = 0.01\n");
  const auto down = tc_event(profile, {.kind = LinkEvent::Kind::down}, 1);
  const auto up = tc_event(profile, {.kind = LinkEvent::Kind::up}, 1);
  for (const auto end : {TcCommand::End::server, TcCommand::End::device}) {
    EXPECT_TRUE(contains(netem_of(down, end), "qdisc change"));
    EXPECT_TRUE(contains(netem_of(down, end), "loss 100%"));
    EXPECT_TRUE(contains(netem_of(up, end), "loss 1%"));
  }
}

TEST(TcCommandsTest, NewAddressReplacesOldOne) {
  const auto profile = read_network_profile("lan").value();
  const auto lines = lines_of(tc_event(profile, {.kind = LinkEvent::Kind::new_address}, 2),
                              TcCommand::End::device);
  EXPECT_EQ(lines, (std::vector<std::string>{"ip address delete 198.18.0.3/15 dev edgedraft0",
                                             "ip address add 198.18.0.4/15 dev edgedraft0",
                                             "ip route replace 198.18.0.0/15 dev edgedraft0 src "
                                             "198.18.0.4 congctl cubic"}));
}

TEST(TcCommandsTest, EscapesLineBreaksInProfileName) {
  NetworkProfile profile = read_network_profile("lan").value();
  profile.name = "mine\ntouch ran\rtouch ran";
  const std::string script = tc_script(profile, plan_tc_link(profile).value());
  EXPECT_TRUE(contains(script, "# The link 'mine\\x0atouch ran\\x0dtouch ran' by netem.\n"))
      << script.substr(0, 200);
}

TEST(TcCommandsTest, ReportsHeldRandomDelaysAsApproximate) {
  EXPECT_TRUE(tc_is_approximate(read_network_profile("4g-busy").value()));
  EXPECT_FALSE(tc_is_approximate(read_network_profile("paper-4g").value()));
  EXPECT_FALSE(tc_is_approximate(profile_of("[both]\nrate_mbit = 5\npath_ms = 2\nhold_ms = 50\n")));
}

TEST(TcCommandsTest, RefusesTracesRestAndCompetingFlows) {
  NetworkProfile traced = read_network_profile("lan").value();
  traced.up.trace = parse_delivery_trace("1\n", "t").value();
  for (const NetworkProfile& profile : {traced, read_network_profile("5g-grants").value(),
                                        read_network_profile("4g-download").value()}) {
    const auto plan = plan_tc_link(profile);
    EXPECT_TRUE(fails_with(plan, Errc::unsupported, "--driver tun")) << profile.name;
  }
}

}  // namespace
}  // namespace edgedraft::netsim
