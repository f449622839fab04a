#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "client/devices/device_choice.h"
#include "client/devices/timing_cache.h"
#include "shared/base/sha256.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft::client {

struct MeasuringOptions {
  const DrafterModel& drafter;
  Digest fingerprint;  // of the bundle's file
  std::string kinds;   // drafting kinds
  TreeShape tree;
  std::uint32_t threads;  // CPU threads
  TimingCache& cache;
  std::shared_ptr<MemoryMeter> meter = nullptr;  // of the devices' memory
  // Use of earlier measurements.
  enum class Known : std::uint8_t { take, renew } known;
};

// Times drafting steps.
//
// Requires  drafter and cache outlive the result
MeasureDevice make_measure(const MeasuringOptions& options);

}  // namespace edgedraft::client
