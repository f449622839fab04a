#pragma once

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/runtime/backend.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft::client {

// Cost of a drafting step, one level of a tree, on a device.
struct StepTiming {
  double seconds;           // per level, averaged over a tree
  double bytes_per_second;  // rate of reading a level's weights
};

// Grows trees of made-up tokens and activations after a short prompt. Returns the median, without
// the first. Takes about a quarter of a second, plus the drafter's start-up.
//
// Throws DeviceError if the device fails.
Result<StepTiming> time_drafting_step(const DrafterModel& model, Backend& backend,
                                      const TreeShape& tree);

}  // namespace edgedraft::client
