#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "shared/base/clock.h"

namespace edgedraft {

// Whether a server lives, works and wants clients: what a supervisor and a balancer ask.
//
// Threads   any; device_works() takes no lock while nothing is wrong
class Health {
 public:
  enum class Phase : std::uint8_t { loading, serving, draining };
  enum class Device : std::uint8_t {
    works,
    failed,  // the last work failed; the next may succeed
    lost,    // does not even give back a number any more, or does not end its work
  };
  struct View {
    Phase phase;
    Device device;
    std::string reason;  // of a device that does not work
  };

  // Calls `report` with a sentence for the log whenever the device's state changes. Set it before
  // other threads know this object.
  void on_change(std::function<void(Device, const std::string&)> report) {
    report_ = std::move(report);
  }

  void set_phase(Phase phase) { phase_.store(phase, std::memory_order_relaxed); }
  void device_failed(const std::string& reason, bool lost);
  // A pass succeeded.
  void device_works() {
    if (device_.load(std::memory_order_relaxed) != Device::works) recover();
  }

  // A pass took so long: what work may take is reckoned from the shortest.
  void pass_took(Duration time);
  // The compute thread begins a step, and has done it.
  void step_begins(Instant now);
  void step_ended();
  // To be called now and then, from a thread that does not wait for the device: where a step takes
  // far longer than any that ends, its device hangs and counts as lost, unless it ends after all. A
  // driver may never say so.
  void look_at_step(Instant now);

  View view() const;

 private:
  void recover();

  std::function<void(Device, const std::string&)> report_;
  std::atomic<Phase> phase_ = Phase::loading;
  std::atomic<Device> device_ = Device::works;
  mutable std::mutex mutex_;  // guards what follows, and changes of device_
  std::string reason_;
  std::optional<Duration> shortest_pass_;
  std::optional<Instant> step_began_;
  bool hangs_ = false;  // lost because of that step
};

}  // namespace edgedraft
