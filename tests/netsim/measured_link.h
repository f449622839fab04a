#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "netsim/drivers/link_driver.h"
#include "tests/e2e/process.h"

namespace edgedraft::netsim {

// A link with the probe (probe.cpp) at its ends.
class MeasuredLink {
 public:
  // nullptr where this machine cannot build it, with the reason in `why_not`.
  static std::unique_ptr<MeasuredLink> make(const NetworkProfile& profile, DriverKind kind,
                                            std::uint64_t seed, std::string& why_not);

  LinkDriver& link() { return *link_; }

  // One probe at each end; the device's command names the server as HOST PORT after its first word.
  // Both give their output, the server's without its `ready` line.
  struct Outputs {
    std::string server;
    std::string device;
  };
  Outputs measure(const std::string& server, std::vector<std::string> device);
  // The same with the probes changed about: from the server to the device. Not over the proxy.
  Outputs measure_down(const std::string& device, std::vector<std::string> server);

  // Round trips in ms of packets that were answered. Over the proxy those of a TCP stream.
  std::vector<double> round_trips(int count);

  // A probe that answers, for as long as this object lives; and one that goes on asking.
  void start_echo();
  std::unique_ptr<testing::Process> start_asking(int count);

 private:
  explicit MeasuredLink(std::unique_ptr<LinkDriver> link);

  std::vector<std::string> with_target(std::vector<std::string> device);
  bool is_proxy() const { return link_->name() == "proxy"; }

  test::TemporaryDirectory scratch_;
  std::unique_ptr<LinkDriver> link_;
  std::uint16_t port_;
  int runs_ = 0;
  std::unique_ptr<testing::Process> echo_;
};

// How late this machine wakes who sleeps, for as long as this object lives: what else runs here
// and, on a virtual machine, its host decide that.
class WakingDelay {
 public:
  WakingDelay();
  ~WakingDelay();
  WakingDelay(const WakingDelay&) = delete;
  WakingDelay& operator=(const WakingDelay&) = delete;

  // In ms, one for each of the times that it slept.
  std::vector<double> stop();

 private:
  std::atomic<bool> stops_ = false;
  std::vector<double> ms_;
  std::thread sleeper_;
};

// The first whole numbers of a text's lines, in ms if they are in ns.
std::vector<double> milliseconds_in(const std::string& text);

// The largest distance between the two samples' distribution functions by which `a` is smaller
// (below) or, with `b` and `a` changed about, greater: Smirnov's one-sided statistic.
double how_far_below(const std::vector<double>& a, const std::vector<double>& b);

// What the statistic exceeds with probability 0.0005 when both samples are of one law.
double smirnov_limit(std::size_t a_count, std::size_t b_count);

}  // namespace edgedraft::netsim
