#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "shared/base/clock.h"

namespace edgedraft::server {

// Liveness, device health and readiness, for supervisors and load balancers.
//
// Threads   any; device_works() takes no lock while the device is healthy
class Health {
 public:
  enum class Phase : std::uint8_t { loading, serving, draining };
  enum class Device : std::uint8_t {
    works,
    failed,  // the last operation failed; the next may succeed
    lost,    // fails even a memory round trip, or hangs
  };
  struct View {
    Phase phase;
    Device device;
    std::string reason;  // why the device does not work
  };

  // Calls `report` with a sentence for the log if the device's state changes. Set it before sharing
  // this object with other threads.
  void on_change(std::function<void(Device, const std::string&)> report) {
    report_ = std::move(report);
  }

  void set_phase(Phase phase) { phase_.store(phase, std::memory_order_relaxed); }
  void device_failed(const std::string& reason, bool lost);
  // A pass succeeded.
  void device_works() {
    if (device_.load(std::memory_order_relaxed) != Device::works) recover();
  }

  // Records a pass time; the shortest one sets the hang limit.
  void pass_took(Duration time);
  // Called by the compute thread at the start and the end of a step.
  void step_begins(Instant now);
  void step_ended();
  // Call periodically from a thread that does not wait for the device. A step far longer than any
  // that completes means a hung device, which counts as lost until the step ends. Drivers may never
  // report a hang.
  void look_at_step(Instant now);

  View view() const;

 private:
  void recover();

  std::function<void(Device, const std::string&)> report_;
  std::atomic<Phase> phase_ = Phase::loading;
  std::atomic<Device> device_ = Device::works;
  mutable std::mutex mutex_;  // guards the members below, and changes of device_
  std::string reason_;
  std::optional<Duration> shortest_pass_;
  std::optional<Instant> step_began_;
  bool hangs_ = false;  // lost because of the current step
};

}  // namespace edgedraft::server
