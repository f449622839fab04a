#pragma once

#include "netsim/link/options.h"

namespace edgedraft::netsim {

// No law delays a packet for longer, however heavy its tail.
inline constexpr Duration kDelayMax = std::chrono::seconds(60);

// The delay that a share `p` of all packets stays below: the law's inverse distribution function,
// clipped to [0, kDelayMax] before the path is added. Drawn with a uniform p it is the law itself.
//
// Requires  p in [0, 1)
Duration delay_quantile(const DelayLaw& law, double p);

// The mean over `steps` equally likely quantiles: what a measurement should find.
Duration mean_delay(const DelayLaw& law, int steps = 4096);

// What a small packet takes on average that comes after a second's rest, sending aside.
Duration mean_delay(const LinkOptions& options, int steps = 4096);

}  // namespace edgedraft::netsim
