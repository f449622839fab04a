#pragma once

#include <chrono>

namespace edgedraft {

// Below the programs' main loops time is always an argument, so tests control it.
using Clock = std::chrono::steady_clock;
using Instant = Clock::time_point;
using Duration = Clock::duration;

inline double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}
inline Duration from_seconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}
inline double milliseconds(Duration d) {
  return 1000.0 * seconds(d);
}

}  // namespace edgedraft
