#pragma once

#include <functional>
#include <thread>

#include "shared/base/clock.h"

namespace edgedraft::lab {

// Clock of a pace.
struct PaceClock {
  std::function<Instant()> now = [] { return Clock::now(); };
  std::function<void(Instant)> wait_until = [](Instant end) { std::this_thread::sleep_until(end); };
  // Called for work that exceeded its pace, which distorts measurements.
  std::function<void()> on_late = [] {};

  // Waits until work started at `started` has taken `pace`.
  void keep(Instant started, Duration pace) const {
    if (now() > started + pace) on_late();
    wait_until(started + pace);
  }
};

}  // namespace edgedraft::lab
