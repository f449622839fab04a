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
  // nullptr if this machine cannot build the link, with the reason in `why_not`.
  static std::unique_ptr<MeasuredLink> make(const NetworkProfile& profile, std::string_view driver,
                                            std::uint64_t seed, std::string& why_not);

  LinkDriver& link() { return *link_; }

  // Runs one probe at each end; the device's command gets HOST PORT of the server after its first
  // word. Returns both outputs, the server's without its `ready` line.
  struct Outputs {
    std::string server;
    std::string device;
  };
  Outputs measure(const std::string& server, std::vector<std::string> device);
  // Likewise with the probes swapped, from the server to the device. Not over the proxy.
  Outputs measure_down(const std::string& device, std::vector<std::string> server);

  // Round trips in ms of answered packets; over the proxy, of a TCP stream.
  std::vector<double> round_trips(int count);

  // Starts a probe that answers during this object's lifetime, and one that keeps asking.
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

// Measures how late this machine wakes sleeping threads, during this object's lifetime. Other load
// and, on a virtual machine, its host add to it.
class WakingDelay {
 public:
  WakingDelay();
  ~WakingDelay();
  WakingDelay(const WakingDelay&) = delete;
  WakingDelay& operator=(const WakingDelay&) = delete;

  // Delays in ms, one per sleep.
  std::vector<double> stop();

 private:
  std::atomic<bool> stops_ = false;
  std::vector<double> ms_;
  std::thread sleeper_;
};

// The first integers of a text's lines, converted from ns to ms.
std::vector<double> milliseconds_in(const std::string& text);

// Smirnov's one-sided statistic: the largest distance between the two samples' distribution
// functions by which `a` is smaller (below) or, with `a` and `b` swapped, greater.
double how_far_below(const std::vector<double>& a, const std::vector<double>& b);

// The statistic's limit: it exceeds this with probability 0.0005 if both samples have one
// distribution.
double smirnov_limit(std::size_t a_count, std::size_t b_count);

}  // namespace edgedraft::netsim
