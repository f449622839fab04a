#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "shared/base/clock.h"
#include "shared/drafting/tap.h"
#include "shared/runtime/decoder.h"

namespace edgedraft {

// What the target's work costs, measured before anybody is served, so that the first row budget and
// the first outlook are right.
struct StartCosts {
  struct Sample {
    std::uint32_t count;  // rows of a pass, or tokens whose activations are delivered
    Duration time;
  };
  std::vector<Sample> passes;
  std::vector<Sample> deliveries;
};

struct StartMeasurement {
  // No pass begins that is expected to end later.
  Duration time_max;
  std::uint32_t rows_max;
  std::span<Tap* const> taps;
  std::function<Instant()> now;
};

// Runs passes of growing width over made-up tokens, the logits of all rows included, and reads
// activations through each tap. Leaves the cache without tokens. Passes of one width alone would
// tell nothing of another's: where there was no time for a second width, nothing is told.
//
// Throws    DeviceError
// Requires  the cache is the decoder's, empty, and has memory for rows_max slots; rows_max <=
//           kMaskRowsMax
StartCosts measure_start_costs(Decoder& decoder, KvCache& cache, const StartMeasurement& how);

}  // namespace edgedraft
