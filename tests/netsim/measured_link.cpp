#include "tests/netsim/measured_link.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>

#include "netsim/drivers/command.h"

namespace edgedraft::netsim {

using testing::Process;

MeasuredLink::MeasuredLink(std::unique_ptr<LinkDriver> link)
    : link_(std::move(link)), port_(static_cast<std::uint16_t>(20'000 + getpid() % 10'000)) {}

std::unique_ptr<MeasuredLink> MeasuredLink::make(const NetworkProfile& profile,
                                                 std::string_view driver, std::uint64_t seed,
                                                 std::string& why_not) {
  auto link = make_link(profile, driver, seed);
  if (!link) {
    EXPECT_EQ(link.error().code, Errc::unsupported) << link.error().message;
    why_not = link.error().message;
    return nullptr;
  }
  return std::unique_ptr<MeasuredLink>(new MeasuredLink(std::move(*link)));
}

std::vector<std::string> MeasuredLink::with_target(std::vector<std::string> device) {
  const std::string target = link_->device_target(port_).value();
  const std::size_t colon = target.rfind(':');
  device.insert(device.begin(), NETSIM_PROBE);
  device.insert(device.begin() + 2, {target.substr(0, colon), target.substr(colon + 1)});
  return device;
}

MeasuredLink::Outputs MeasuredLink::measure(const std::string& server,
                                            std::vector<std::string> device) {
  Process listener(link_->at_server({NETSIM_PROBE, server, std::to_string(port_)}),
                   scratch_ / ("server" + std::to_string(runs_++)));
  EXPECT_TRUE(listener.wait_for_output("ready")) << listener.err();
  Outputs out;
  out.device = run_command(link_->at_device(with_target(std::move(device)))).value();
  if (server != "echo") {
    EXPECT_EQ(listener.wait(), 0) << listener.err();
  }
  out.server = listener.out().substr(listener.out().find('\n') + 1);
  return out;
}

MeasuredLink::Outputs MeasuredLink::measure_down(const std::string& device,
                                                 std::vector<std::string> server) {
  Process listener(link_->at_device({NETSIM_PROBE, device, std::to_string(port_)}),
                   scratch_ / ("device" + std::to_string(runs_++)));
  EXPECT_TRUE(listener.wait_for_output("ready")) << listener.err();
  server.insert(server.begin(), NETSIM_PROBE);
  server.insert(server.begin() + 2, {"198.18.0.2", std::to_string(port_)});
  Outputs out;
  out.server = run_command(link_->at_server(server)).value();
  EXPECT_EQ(listener.wait(), 0) << listener.err();
  out.device = listener.out().substr(listener.out().find('\n') + 1);
  return out;
}

std::vector<double> MeasuredLink::round_trips(int count) {
  const std::string ping = is_proxy() ? "tcp-ping" : "ping";
  const std::string text = measure("echo", {ping, std::to_string(count)}).device;
  // The first line of a TCP stream is the handshake's.
  return milliseconds_in(is_proxy() ? text.substr(text.find('\n') + 1) : text);
}

void MeasuredLink::start_echo() {
  echo_ = std::make_unique<Process>(link_->at_server({NETSIM_PROBE, "echo", std::to_string(port_)}),
                                    scratch_ / "echo");
  EXPECT_TRUE(echo_->wait_for_output("ready")) << echo_->err();
}

std::unique_ptr<Process> MeasuredLink::start_asking(int count) {
  return std::make_unique<Process>(
      link_->at_device(with_target({"tcp-ping", std::to_string(count)})),
      scratch_ / ("asking" + std::to_string(runs_++)));
}

WakingDelay::WakingDelay()
    : sleeper_([this] {
        using Clock = std::chrono::steady_clock;
        while (!stops_) {
          const auto due = Clock::now() + std::chrono::milliseconds(2);
          std::this_thread::sleep_until(due);
          ms_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - due).count());
        }
      }) {}

WakingDelay::~WakingDelay() {
  stop();
}

std::vector<double> WakingDelay::stop() {
  stops_ = true;
  if (sleeper_.joinable()) sleeper_.join();
  return ms_;
}

std::vector<double> milliseconds_in(const std::string& text) {
  std::vector<double> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    double value = 0;
    if (fields >> value) values.push_back(value / 1e6);
  }
  return values;
}

double how_far_below(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> sorted_a = a;
  std::vector<double> sorted_b = b;
  std::sort(sorted_a.begin(), sorted_a.end());
  std::sort(sorted_b.begin(), sorted_b.end());
  const auto share_at_most = [](const std::vector<double>& sorted, double x) {
    return static_cast<double>(std::upper_bound(sorted.begin(), sorted.end(), x) - sorted.begin()) /
           static_cast<double>(sorted.size());
  };
  double most = 0;
  for (const double x : sorted_a) {
    most = std::max(most, share_at_most(sorted_a, x) - share_at_most(sorted_b, x));
  }
  return most;
}

double smirnov_limit(std::size_t a_count, std::size_t b_count) {
  const double a = static_cast<double>(a_count);
  const double b = static_cast<double>(b_count);
  return std::sqrt(-std::log(0.0005) / 2 * (a + b) / (a * b));
}

}  // namespace edgedraft::netsim
