#pragma once

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/runtime/backend.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// What a drafting step, one level of a tree, costs on a device.
struct StepTiming {
  double seconds;           // of a tree, divided by its levels
  double bytes_per_second;  // of the weights that a level reads
};

// Grows trees of made-up tokens and activations behind a short prompt: the median of some, after
// the first. Takes about a quarter of a second, and the drafter's start-up.
//
// Throws DeviceError if the device fails.
Result<StepTiming> time_drafting_step(const DrafterModel& model, Backend& backend,
                                      const TreeShape& tree);

}  // namespace edgedraft
