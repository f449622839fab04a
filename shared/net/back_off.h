#pragma once

#include "shared/base/clock.h"
#include "shared/base/random.h"

namespace edgedraft {

struct BackOff {
  Duration min = std::chrono::milliseconds(100);
  Duration max = std::chrono::seconds(30);
};

// How long to wait before attempt `attempt` (0, 1, ...) to connect again: the ceiling doubles from
// `min` to `max`, and the wait is drawn from its upper half, so that a thousand clients do not come
// back at once.
Duration back_off_delay(const BackOff& options, std::uint32_t attempt, Random& random);

}  // namespace edgedraft
