#pragma once

#include <ostream>

#include "netsim/profile.h"

namespace edgedraft::netsim {

// Packets to send: evenly spaced, equal in both directions.
struct SimulatedLoad {
  std::uint32_t packets = 1000;
  std::uint32_t packet_bytes = 1200;
  Duration interval = std::chrono::milliseconds(1);
};

// Writes each packet's fate as CSV with a header: direction, number, send time, fate, arrival;
// times in whole nanoseconds since the start. Uses the link model of the drivers tun and proxy at
// simulated times: equal arguments give equal bytes.
void simulate(const NetworkProfile& profile, const SimulatedLoad& load, std::uint64_t seed,
              std::ostream& out);

}  // namespace edgedraft::netsim
