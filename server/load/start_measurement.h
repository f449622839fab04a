#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "shared/base/clock.h"
#include "shared/runtime/decoder.h"

namespace edgedraft::server {

// Time of one pass of `rows` rows.
struct StartSample {
  std::uint32_t rows;
  Duration time;
};

struct StartMeasurement {
  // No pass starts that is expected to end later.
  Duration time_max;
  std::uint32_t rows_max;
  std::function<Instant()> now;
};

// Times passes of several widths over made-up tokens, with logits for all rows, before clients
// connect; narrowest first. Leaves the cache empty. Returns nothing if there was no time for a
// second width, since one width cannot be extrapolated.
//
// Throws    DeviceError
// Requires  the cache is the decoder's, empty, and has memory for rows_max slots; rows_max <=
//           kMaskRowsMax
std::vector<StartSample> measure_start_costs(Decoder& decoder, KvCache& cache,
                                             const StartMeasurement& how);

}  // namespace edgedraft::server
