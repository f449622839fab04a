#pragma once

#include "client/devices/device_choice.h"
#include "client/devices/timing_cache.h"

namespace edgedraft {

struct MeasuringOptions {
  const BundleFile& bundle;
  TreeShape tree;
  std::uint32_t threads;  // of the CPU
  TimingCache& cache;
  // What a former run has measured: taken as it is, or measured again.
  enum class Known : std::uint8_t { take, renew } known;
};

// Times drafting steps of the bundle.
//
// Requires  bundle and cache outlive the result
MeasureDevice make_measure(const MeasuringOptions& options);

}  // namespace edgedraft
