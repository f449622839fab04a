#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "netsim/drivers/link_driver.h"
#include "netsim/run/experiment.h"

namespace edgedraft::netsim {

// True if the link's round trip can be measured: more than half of the pings lose no packet in
// either direction.
bool is_measurable(const NetworkProfile& profile);

// Measurements that a profile predicts.
struct Expectation {
  double round_trip_ms = 0;        // median of that many pings
  double round_trip_error_ms = 0;  // upper bound on that median's random error
  double ping_seconds = 0;         // per ping, retransmissions included
  double up_bits_per_second = 0;   // that arrive; 0: a short measurement has no expected value
  double down_bits_per_second = 0;
  bool measurable = true;  // false: no prediction
};
Expectation expect(const NetworkProfile& profile, std::uint32_t pings);

struct Calibration {
  double round_trip_ms = 0;  // median
  bool accepted = true;
  std::string complaint;  // reason of failure
  nlohmann::ordered_json line;
};

// Measures the link and compares it with its profile.
//
// Errors    link_down, io: the measurement failed or took far too long; cancelled as soon as
//           `cancelled` returns true
Result<Calibration> calibrate(LinkDriver& link, const NetworkProfile& profile,
                              const Experiment& experiment, const std::filesystem::path& work,
                              const std::string& stage, const std::string& when,
                              const std::function<bool()>& cancelled);

}  // namespace edgedraft::netsim
