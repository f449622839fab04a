#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/error.h"

// What measures a link: a small server at its one end, a client at its other, programs of their
// own (`edgedraft-netsim probe`) since each end may be a network namespace.
namespace edgedraft::netsim {

struct ProbeOptions {
  std::string server;  // HOST:PORT
  std::uint32_t pings = 60;
  // The rates that the profile promises, by which trains of packets are sized; 0: no rate is
  // measured.
  std::uint64_t up_bits_per_second = 0;
  std::uint64_t down_bits_per_second = 0;
  bool stream = false;  // measure rates by a TCP stream: for a link that relays nothing else
};

struct ProbeResult {
  std::vector<double> round_trips_ms;
  double up_bits_per_second = 0;  // of IP packets; 0: not measured, or nothing came through
  double down_bits_per_second = 0;
};

// Serves one client after another until it is killed. Prints `ready HOST:PORT`.
Result<void> serve_probe(const std::string& listen);

// Errors    link_down, timed_out
Result<ProbeResult> run_probe(const ProbeOptions& options);

// About how long that takes over a link of these rates on which a ping takes so long.
double probe_seconds(const ProbeOptions& options, double ping_seconds);

}  // namespace edgedraft::netsim
