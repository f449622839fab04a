#pragma once

#include <functional>
#include <thread>

#include "shared/base/clock.h"

namespace edgedraft {

// The clock by which a pace is kept.
struct PaceClock {
  std::function<Instant()> now = [] { return Clock::now(); };
  std::function<void(Instant)> wait_until = [](Instant end) { std::this_thread::sleep_until(end); };
  // Called for work that took longer than its pace, which distorts what is measured.
  std::function<void()> on_late = [] {};

  // Waits until work that began at `started` has taken as long as `pace`.
  void keep(Instant started, Duration pace) const {
    if (now() > started + pace) on_late();
    wait_until(started + pace);
  }
};

}  // namespace edgedraft
