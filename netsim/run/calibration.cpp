#include "netsim/run/calibration.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <thread>

#include "netsim/drivers/process.h"
#include "netsim/link/link.h"
#include "netsim/run/installation.h"
#include "netsim/run/plan.h"
#include "netsim/run/probe.h"
#include "shared/base/percentile.h"

namespace edgedraft::netsim {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kSimulations = 400;
// The size of a ping's IP packet.
constexpr std::size_t kPingBytes = 60;
// Scheduling and TCP latency on an idle machine.
constexpr double kRoundTripFloorMs = 3;
// Above it, a user-space link measures the machine instead of the profile.
constexpr std::uint64_t kJudgedRateMax = 100'000'000;
constexpr auto kProbeStart = std::chrono::seconds(10);
// Slack beyond twice the expected time of pings and trains.
constexpr double kProbeSlackSeconds = 180;
// TCP's wait for a lost packet: a fifth of it at first, then longer.
constexpr double kRetransmissionSeconds = 1;
constexpr auto kProbePoll = std::chrono::milliseconds(5);

// Long-term share of delivered packets.
double delivered_share(const LinkOptions& direction) {
  double lost_in_bursts = 0;
  if (direction.burst_loss) {
    const GilbertElliott& burst = *direction.burst_loss;
    const double in_burst = burst.enter / (burst.enter + burst.leave);
    lost_in_bursts = in_burst * burst.loss_in_burst + (1 - in_burst) * burst.loss_outside;
  }
  return (1 - direction.loss) * (1 - lost_in_bursts);
}

std::string number(double value, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof text, "%.3g %s", value, unit);
  return text;
}

double pings_delivered_share(const NetworkProfile& profile) {
  return delivered_share(profile.up) * delivered_share(profile.down);
}

}  // namespace

bool is_measurable(const NetworkProfile& profile) {
  return pings_delivered_share(profile) > 0.5;
}

Expectation expect(const NetworkProfile& profile, std::uint32_t pings) {
  Expectation e;
  if (!is_measurable(profile)) {
    e.measurable = false;
    return e;
  }
  const double pings_delivered = pings_delivered_share(profile);
  std::vector<double> medians;
  std::vector<double> all;
  for (std::uint64_t seed = 1; seed <= kSimulations; ++seed) {
    Link up(profile.up, 2 * seed, Instant{});
    Link down(profile.down, 2 * seed + 1, Instant{});
    std::vector<double> pinged;
    Instant now{};
    // Each ping starts after the previous one returned; lost pings are replaced.
    for (std::uint32_t tries = 0; pinged.size() < pings && tries < 100 * pings; ++tries) {
      Instant there = now;
      Instant back = now;
      const bool came = up.send(now, Link::Packet(kPingBytes), &there) == Fate::delivered &&
                        down.send(there, Link::Packet(kPingBytes), &back) == Fate::delivered;
      while (up.receive(there) || down.receive(back)) {
      }
      if (came) pinged.push_back(1000 * seconds(back - now));
      now = std::max(now, back);
    }
    if (pinged.empty()) pinged.push_back(0.0);
    medians.push_back(median(pinged));
    all.insert(all.end(), pinged.begin(), pinged.end());
  }
  e.round_trip_ms = median(all);
  const auto [least, most] = std::ranges::minmax(medians);
  e.round_trip_error_ms = std::max(most - e.round_trip_ms, e.round_trip_ms - least);
  e.ping_seconds = e.round_trip_ms / 1000 + (1 / pings_delivered - 1) * kRetransmissionSeconds;
  const auto judged = [](const LinkOptions& direction) {
    const bool constant = !direction.trace && direction.bits_per_second <= kJudgedRateMax;
    // Lost packets take time on the wire, too.
    return constant ? static_cast<double>(direction.bits_per_second) * delivered_share(direction)
                    : 0.0;
  };
  e.up_bits_per_second = judged(profile.up);
  e.down_bits_per_second = judged(profile.down);
  return e;
}

Result<Calibration> calibrate(LinkDriver& link, const NetworkProfile& profile,
                              const Experiment& experiment, const std::filesystem::path& work,
                              const std::string& stage, const std::string& when,
                              const std::function<bool()>& cancelled) {
  Calibration calibration;
  calibration.line = {{"stage", stage}, {"when", when}, {"driver", link.name()}};
  const Expectation expected = expect(profile, experiment.pings);
  if (!expected.measurable) {
    calibration.line["result"] = "not measurable: at least half of the pings would lose a packet";
    return calibration;
  }
  const bool no_link = link.name() == "loopback";

  const std::string self = own_program().string();
  auto server =
      Process::start({.argv = link.at_server({self, "probe", "--listen", link.server_listen()}),
                      .output = work / "probe-server.out",
                      .errors = work / "probe-server.err"});
  if (!server) return server.error();
  std::string address;
  for (const Instant deadline = Clock::now() + kProbeStart;
       address.empty() && server->running() && Clock::now() < deadline;) {
    if (cancelled()) return Error{Errc::cancelled, "interrupted"};
    std::this_thread::sleep_for(kProbePoll);
    const std::string text = read_output(work / "probe-server.out");
    if (text.ends_with('\n')) address = text.substr(text.rfind(':') + 1);
  }
  if (address.empty()) {
    return Error{Errc::io, "the probe at the server's end did not start: " +
                               last_line(work / "probe-server.err")};
  }
  const auto target = link.device_target(static_cast<std::uint16_t>(std::stoul(address)));
  if (!target) return target.error();
  ProbeOptions probe{.server = *target, .pings = experiment.pings};
  if (!no_link) {
    // Trains are sized by the wire rate, since lost packets use capacity, too.
    const auto rate = [](const LinkOptions& direction, double judged) {
      return judged > 0 ? direction.bits_per_second : 0;
    };
    probe.up_bits_per_second = rate(profile.up, expected.up_bits_per_second);
    probe.down_bits_per_second = rate(profile.down, expected.down_bits_per_second);
    probe.stream = link.name() == "proxy";
  }
  std::vector<std::string> argv{self,        "probe",
                                "--connect", probe.server,
                                "--pings",   std::to_string(probe.pings),
                                "--up",      std::to_string(probe.up_bits_per_second),
                                "--down",    std::to_string(probe.down_bits_per_second)};
  if (probe.stream) argv.push_back("--stream");
  auto client = Process::start(
      {.argv = link.at_device(argv), .output = work / "probe.out", .errors = work / "probe.err"});
  if (!client) return client.error();
  const double limit = kProbeSlackSeconds + 2 * probe_seconds(probe, expected.ping_seconds);
  const Instant deadline = Clock::now() + from_seconds(limit);
  if (!client->wait_until(deadline, cancelled)) {
    if (cancelled()) return Error{Errc::cancelled, "interrupted"};
    return Error{Errc::link_down,
                 "the link could not be measured: it took longer than " + duration_text(limit)};
  }
  if (client->status() != 0) {
    return Error{Errc::link_down,
                 "the link could not be measured: " + last_line(work / "probe.err")};
  }
  server->end(std::chrono::seconds(1));
  const auto measured = ordered_json::parse(read_output(work / "probe.out"), nullptr, false);
  if (!measured.is_object()) return Error{Errc::io, "cannot parse the probe's output"};

  const auto pings = measured.value("round_trips_ms", std::vector<double>{});
  if (pings.empty()) return Error{Errc::io, "the probe measured no round trip"};
  calibration.round_trip_ms = median(pings);
  const double up = measured.value("up_bits_per_second", 0.0);
  const double down = measured.value("down_bits_per_second", 0.0);
  const double allowed = expected.round_trip_ms * experiment.rtt_tolerance + kRoundTripFloorMs +
                         expected.round_trip_error_ms;
  const auto complain = [&](const std::string& what) {
    calibration.accepted = false;
    calibration.complaint += (calibration.complaint.empty() ? "" : "; ") + what;
  };
  if (!no_link) {
    if (std::abs(calibration.round_trip_ms - expected.round_trip_ms) > allowed) {
      complain("the median round trip is " + number(calibration.round_trip_ms, "ms") +
               ", the profile's is " + number(expected.round_trip_ms, "ms") +
               " (accepted: at most " + number(allowed, "ms") + " off)");
    }
    const auto judge = [&](const char* way, double is, double should) {
      if (should == 0 || std::abs(is - should) <= should * experiment.rate_tolerance) return;
      complain(std::string("the rate ") + way + " is " + number(is / 1e6, "Mbit/s") +
               ", the profile's is " + number(should / 1e6, "Mbit/s"));
    };
    judge("up", up, expected.up_bits_per_second);
    judge("down", down, expected.down_bits_per_second);
  }
  ordered_json& line = calibration.line;
  line["round_trip_ms_median"] = calibration.round_trip_ms;
  line["round_trip_ms_p05"] = percentile(pings, 0.05);
  line["round_trip_ms_p95"] = percentile(pings, 0.95);
  line["round_trip_ms_expected"] = no_link ? ordered_json() : ordered_json(expected.round_trip_ms);
  line["round_trip_ms_allowed"] = no_link ? ordered_json() : ordered_json(allowed);
  line["up_mbit_s"] = up / 1e6;
  line["up_mbit_s_expected"] = expected.up_bits_per_second / 1e6;
  line["down_mbit_s"] = down / 1e6;
  line["down_mbit_s_expected"] = expected.down_bits_per_second / 1e6;
  line["accepted"] = calibration.accepted;
  line["result"] = no_link                ? std::string("no link: the profile is not applied")
                   : calibration.accepted ? std::string("within tolerance")
                                          : calibration.complaint;
  return calibration;
}

}  // namespace edgedraft::netsim
