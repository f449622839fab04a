#pragma once

#include <ostream>

#include "netsim/profile.h"

namespace edgedraft::netsim {

// What is sent: the same each way, evenly.
struct SimulatedLoad {
  std::uint32_t packets = 1000;
  std::uint32_t packet_bytes = 1200;
  Duration interval = std::chrono::milliseconds(1);
};

// Writes what becomes of each packet, as CSV with a header: direction, number, when it is sent,
// its fate, when it arrives; times in whole nanoseconds since the start. It is the link model that
// the drivers tun and proxy use, at simulated times: the same arguments give the same bytes.
void simulate(const NetworkProfile& profile, const SimulatedLoad& load, std::uint64_t seed,
              std::ostream& out);

}  // namespace edgedraft::netsim
