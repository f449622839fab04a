#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "netsim/drivers/command.h"
#include "tests/netsim/measured_link.h"

namespace edgedraft::netsim {
namespace {

using namespace std::chrono_literals;
using testing::Process;
using testing::Scratch;

constexpr int kRoundTrips = 400;
constexpr int kBlast = 1000;
// On both sides packets wait for a processor: in the machine one of 500 MHz, here one that others
// use as well.
constexpr double kSchedulingMs = 3;

struct Netem {
  std::vector<double> round_trips;
  double packets = 0;
  double bytes = 0;
  double ns = 0;
  double overtaken = 0;
};

// The tc driver's own commands, run and measured in a machine whose kernel has netem.
class NetemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* program : {"qemu-system-x86_64", "busybox", "cpio", "ip", "tc"}) {
      if (!run_command(
              {"sh", "-c", std::string("PATH=$PATH:/usr/sbin:/sbin command -v ") + program})) {
        GTEST_SKIP() << "no " << program << ": scripts/install-packages.sh test";
      }
    }
    const std::string fetch =
        std::string(NETSIM_BOOT).substr(0, std::string(NETSIM_BOOT).rfind('/')) +
        "/fetch_kernel.sh";
    if (const auto fetched = run_command({fetch, NETSIM_KERNEL}); !fetched) {
      GTEST_SKIP() << fetched.error().message;
    }
  }

  void boot(const std::string& profile, Netem& out) {
    const Scratch scratch;
    std::ofstream(scratch / "own.toml") << profile;
    const auto script = run_command({EDGEDRAFT_NETSIM, "link", "--driver", "tc", "--profile",
                                     (scratch / "own.toml").string(), "--dry-run"});
    ASSERT_TRUE(script) << script.error().message;
    std::ofstream(scratch / "link.sh") << *script;
    Process machine({NETSIM_BOOT, NETSIM_KERNEL, (scratch / "link.sh").string(), NETSIM_PROBE,
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
    RecordProperty("netem_median_ms", std::to_string(quantile(out.round_trips, 0.5)));
  }

  // Both samples come from one law, but for what waiting for a processor adds on either side.
  void expect_one_law(const std::vector<double>& netem, const std::vector<double>& tun) {
    const double limit = smirnov_limit(netem.size(), tun.size());
    const auto later = [](std::vector<double> values) {
      for (double& ms : values) ms += kSchedulingMs;
      return values;
    };
    const std::string medians = "medians: netem " + std::to_string(quantile(netem, 0.5)) +
                                " ms, tun " + std::to_string(quantile(tun, 0.5)) + " ms";
    EXPECT_LT(how_far_below(later(tun), netem), limit) << "netem is later; " << medians;
    EXPECT_LT(how_far_below(later(netem), tun), limit) << "tun is later; " << medians;
    std::cout << medians << "; 5 % " << quantile(netem, 0.05) << " and " << quantile(tun, 0.05)
              << ", 95 % " << quantile(netem, 0.95) << " and " << quantile(tun, 0.95) << '\n';
  }

  void compare(const std::string& text, bool reorders) {
    Netem netem;
    boot(text, netem);
    if (HasFatalFailure()) return;

    // The rate holds and packets keep or lose their order in the kernel's link as in ours.
    const double per_packet_ms = 1442 * 8 / 20e6 * 1e3;  // with Ethernet's 14 bytes
    EXPECT_NEAR(netem.ns / 1e6, kBlast * per_packet_ms, 0.1 * kBlast * per_packet_ms);
    EXPECT_GT(netem.packets, kBlast * 0.97);
    EXPECT_EQ(netem.overtaken > 0, reorders) << netem.overtaken;

    std::string why_not;
    const auto link = MeasuredLink::make(parse_network_profile(text, "own.toml").value(),
                                         DriverKind::tun, 1, why_not);
    if (!link) GTEST_SKIP() << "netem measured; nothing to compare it with: " << why_not;
    expect_one_law(netem.round_trips, link->round_trips(kRoundTrips));
  }
};

TEST_F(NetemTest, RoundTripsAreThoseOfTun) {
  compare(
      "[both]\nrate_mbit = 20\npath_ms = 4.5\nloss = 0.001\n"
      "delay = { law = \"normal\", mean_ms = 10, deviation_ms = 10 }\n",
      false);
}

TEST_F(NetemTest, RoundTripsOfThePapersReorderingLinkAreThoseOfTun) {
  compare(
      "[both]\nrate_mbit = 20\npath_ms = 4.5\nloss = 0.001\nreorder = true\n"
      "delay = { law = \"normal\", mean_ms = 10, deviation_ms = 10 }\n",
      true);
}

}  // namespace
}  // namespace edgedraft::netsim
