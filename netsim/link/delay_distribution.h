#pragma once

#include "netsim/link/options.h"

namespace edgedraft::netsim {

// Upper bound on any drawn delay; heavier tails are clipped.
inline constexpr Duration kDelayMax = std::chrono::seconds(60);

// Inverse distribution function of the delay, clipped to [0, kDelayMax] before the path is added. A
// uniform p gives the distribution itself.
//
// Requires  p in [0, 1)
Duration delay_quantile(const DelayDistribution& distribution, double p);

// Mean over `steps` equally likely quantiles, the value a measurement should find.
Duration mean_delay(const DelayDistribution& distribution, int steps = 4096);

// Mean time of a small packet after a second's rest, excluding transmission.
Duration mean_delay(const LinkOptions& options, int steps = 4096);

}  // namespace edgedraft::netsim
