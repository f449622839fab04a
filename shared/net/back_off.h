#pragma once

#include "shared/base/clock.h"
#include "shared/base/random.h"

namespace edgedraft {

struct BackOff {
  Duration min = std::chrono::milliseconds(100);
  Duration max = std::chrono::seconds(30);
};

// Wait before connection attempt `attempt` (0, 1, ...). The ceiling doubles from `min` to `max`;
// the wait is drawn from its upper half, so that many clients do not return at once.
Duration back_off_delay(const BackOff& options, std::uint32_t attempt, Random& random);

}  // namespace edgedraft
