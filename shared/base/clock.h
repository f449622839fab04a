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
inline double milliseconds(Duration d) {
  return 1000.0 * seconds(d);
}

}  // namespace edgedraft
