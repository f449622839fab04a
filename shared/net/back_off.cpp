#include "shared/net/back_off.h"

#include <algorithm>

namespace edgedraft {

Duration back_off_delay(const BackOff& options, std::uint32_t attempt, Random& random) {
  // Beyond this every ceiling exceeds any sensible maximum; the bound keeps the shift defined.
  constexpr std::uint32_t kDoublingsMax = 20;
  const Duration ceiling =
      std::min(options.max, options.min * (1u << std::min(attempt, kDoublingsMax)));
  const double share = 0.5 + 0.5 * random.uniform();
  return std::max(options.min, std::chrono::duration_cast<Duration>(ceiling * share));
}

}  // namespace edgedraft
