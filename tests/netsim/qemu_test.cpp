#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "netsim/drivers/command.h"
#include "netsim/drivers/tc_commands.h"
#include "shared/base/percentile.h"
#include "tests/netsim/measured_link.h"
#include "tests/support/skip.h"

namespace edgedraft::netsim {
namespace {

using namespace std::chrono_literals;
using test::TemporaryDirectory;
using testing::Process;

constexpr int kRoundTrips = 400;
constexpr int kBlast = 1000;
// Time that packets wait for a processor: in the machine one of 500 MHz without other load, here
// one that is shared.
constexpr double kMachineMs = 0.5;
constexpr double kSchedulingMs = 3;

struct Netem {
  std::vector<double> round_trips;
  double packets = 0;
  double bytes = 0;
  double ns = 0;
  double overtaken = 0;
};

// Runs the tc driver's own commands and measures them in a machine whose kernel has netem.
class NetemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* program : {"qemu-system-x86_64", "busybox", "cpio", "ip", "tc"}) {
      if (!run_command(
              {"sh", "-c", std::string("PATH=$PATH:/usr/sbin:/sbin command -v ") + program})) {
        EDGEDRAFT_SKIP_WITHOUT("netem",
                               std::string("no ") + program + ": scripts/install-packages.sh test");
      }
    }
    const std::string fetch =
        std::string(NETSIM_BOOT).substr(0, std::string(NETSIM_BOOT).rfind('/')) +
        "/fetch_kernel.sh";
    if (const auto fetched = run_command({fetch, NETSIM_KERNEL}); !fetched) {
      EDGEDRAFT_SKIP_WITHOUT("netem", fetched.error().message);
    }
  }

  void boot(const std::string& profile, Netem& out) {
    const TemporaryDirectory scratch;
    std::ofstream(scratch / "own.toml") << profile;
    const auto script = run_command({EDGEDRAFT_NETSIM, "link", "--driver", "tc", "--profile",
                                     (scratch / "own.toml").string(), "--dry-run"});
    ASSERT_TRUE(script) << script.error().message;
    std::ofstream(scratch / "link.sh") << *script;
    write_event(scratch / "down.sh", profile, {.kind = LinkEvent::Kind::down});
    write_event(scratch / "up.sh", profile, {.kind = LinkEvent::Kind::up});
    write_event(scratch / "moved.sh", profile, {.kind = LinkEvent::Kind::new_address});
    Process machine({NETSIM_BOOT, NETSIM_KERNEL, scratch.path().string(), NETSIM_PROBE,
                     std::to_string(kRoundTrips), std::to_string(kBlast)},
                    scratch / "machine");
    machine.wait(800s);
    const std::string text = machine.out();
    const std::size_t sink = text.find("\nsink ");
    ASSERT_NE(sink, std::string::npos) << text << machine.err();
    ASSERT_EQ(std::sscanf(text.c_str() + sink, " sink %lf %lf %lf %lf", &out.packets, &out.bytes,
                          &out.ns, &out.overtaken),
              4)
        << text;
    out.round_trips = milliseconds_in(text.substr(0, sink));
    ASSERT_GT(out.round_trips.size(), kRoundTrips * 0.9) << text;
    EXPECT_NE(text.find("\nevent down 3\n"), std::string::npos) << text.substr(sink);
    EXPECT_NE(text.find("\nevent up 0\n"), std::string::npos) << text.substr(sink);
    EXPECT_NE(text.find("\nevent moved 0\n"), std::string::npos) << text.substr(sink);
  }

  static void write_event(const std::filesystem::path& file, const std::string& profile,
                          const LinkEvent& event) {
    std::ofstream out(file);
    for (const TcCommand& command :
         tc_event(parse_network_profile(profile, "own.toml").value(), event, 1)) {
      out << (command.end == TcCommand::End::server ? "$at_server " : "$at_device ")
          << shell_line(command.argv) << '\n';
    }
  }

  // Both samples have one distribution, except for waiting for a processor on either side.
  void expect_same_distribution(const std::vector<double>& netem, const std::vector<double>& tun) {
    const double limit = smirnov_limit(netem.size(), tun.size());
    const auto later = [](std::vector<double> values, double by_ms) {
      for (double& ms : values) ms += by_ms;
      return values;
    };
    const std::string medians = "medians: netem " + std::to_string(median(netem)) + " ms, tun " +
                                std::to_string(median(tun)) + " ms";
    EXPECT_LT(how_far_below(later(tun, kMachineMs), netem), limit) << "netem is later; " << medians;
    EXPECT_LT(how_far_below(later(netem, kSchedulingMs), tun), limit)
        << "tun is later; " << medians;
    std::cout << medians << "; 5 % " << percentile(netem, 0.05) << " and " << percentile(tun, 0.05)
              << ", 95 % " << percentile(netem, 0.95) << " and " << percentile(tun, 0.95) << '\n';
  }

  void compare(const std::string& text, bool reorders) {
    Netem netem;
    boot(text, netem);
    if (HasFatalFailure()) return;

    // The rate holds, and the kernel's link keeps or changes packet order as ours does.
    const double per_packet_ms = 1442 * 8 / 20e6 * 1e3;  // with Ethernet's 14 bytes
    EXPECT_NEAR(netem.ns / 1e6, kBlast * per_packet_ms, 0.1 * kBlast * per_packet_ms);
    EXPECT_GT(netem.packets, kBlast * 0.97);
    EXPECT_EQ(netem.overtaken > 0, reorders) << netem.overtaken;

    std::string why_not;
    const auto link =
        MeasuredLink::make(parse_network_profile(text, "own.toml").value(), "tun", 1, why_not);
    if (!link) EDGEDRAFT_SKIP_WITHOUT("tun", why_not);
    expect_same_distribution(netem.round_trips, link->round_trips(kRoundTrips));
  }
};

TEST_F(NetemTest, RoundTripsMatchTun) {
  compare(
      "[both]\nrate_mbit = 20\npath_ms = 4.5\nloss = 0.001\n"
      "delay = { distribution = \"normal\", mean_ms = 10, deviation_ms = 10 }\n",
      false);
}

TEST_F(NetemTest, RoundTripsOfReorderingPaperLinkMatchTun) {
  compare(
      "[both]\nrate_mbit = 20\npath_ms = 4.5\nloss = 0.001\nreorder = true\n"
      "delay = { distribution = \"normal\", mean_ms = 10, deviation_ms = 10 }\n",
      true);
}

}  // namespace
}  // namespace edgedraft::netsim
