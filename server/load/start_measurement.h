#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "shared/base/clock.h"
#include "shared/runtime/decoder.h"

namespace edgedraft {

// The time of a pass of so many rows.
struct StartSample {
  std::uint32_t rows;
  Duration time;
};

struct StartMeasurement {
  // No pass begins that is expected to end later.
  Duration time_max;
  std::uint32_t rows_max;
  std::function<Instant()> now;
};

// Runs passes of growing width over made-up tokens, the logits of all rows included, before any
// client is served. Leaves the cache without tokens. Returns nothing if there was no time for a
// second width: passes of one width say nothing about others.
//
// Throws    DeviceError
// Requires  the cache is the decoder's, empty, and has memory for rows_max slots; rows_max <=
//           kMaskRowsMax
std::vector<StartSample> measure_start_costs(Decoder& decoder, KvCache& cache,
                                             const StartMeasurement& how);

}  // namespace edgedraft
