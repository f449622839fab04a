#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/error.h"

// Link measurement: a small server at one end, a client at the other. They are separate programs
// (`edgedraft-netsim probe`), since each end may be a network namespace.
namespace edgedraft::netsim {

struct ProbeOptions {
  std::string server;  // HOST:PORT
  std::uint32_t pings = 60;
  // Rates predicted by the profile, which size the packet trains; 0: no rate is measured.
  std::uint64_t up_bits_per_second = 0;
  std::uint64_t down_bits_per_second = 0;
  bool stream = false;  // measure rates by a TCP stream, for links that relay nothing else
};

struct ProbeResult {
  std::vector<double> round_trips_ms;
  double up_bits_per_second = 0;  // rate of IP packets; 0: not measured, or no data arrived
  double down_bits_per_second = 0;
};

// Serves clients one after another until killed. Prints `ready HOST:PORT`.
Result<void> serve_probe(const std::string& listen);

// Errors    link_down, timed_out
Result<ProbeResult> run_probe(const ProbeOptions& options);

// Approximate duration of a probe at these rates, with this time per ping.
double probe_seconds(const ProbeOptions& options, double ping_seconds);

}  // namespace edgedraft::netsim
