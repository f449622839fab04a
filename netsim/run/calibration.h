#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "netsim/drivers/link_driver.h"
#include "netsim/run/experiment.h"

namespace edgedraft::netsim {

// Whether a link has a round trip to speak of: more than half of the pings lose no packet, there or
// back.
bool is_measurable(const NetworkProfile& profile);

// What a profile promises of a measurement.
struct Expectation {
  double round_trip_ms = 0;        // median of so many pings
  double round_trip_error_ms = 0;  // its own scatter: so far off is chance, at most
  double ping_seconds = 0;         // about what each takes, with what TCP sends again
  double up_bits_per_second = 0;   // that arrive; 0: nothing to hold a short measurement against
  double down_bits_per_second = 0;
  bool measurable = true;  // false: nothing is promised
};
Expectation expect(const NetworkProfile& profile, std::uint32_t pings);

struct Calibration {
  double round_trip_ms = 0;  // median
  bool accepted = true;
  std::string complaint;  // why not
  nlohmann::ordered_json line;
};

// Measures the link and holds it against its profile.
//
// Errors    link_down, io: it could not be measured, or took far longer than it should; cancelled
//           as soon as `cancelled` says so
Result<Calibration> calibrate(LinkDriver& link, const NetworkProfile& profile,
                              const Experiment& experiment, const std::filesystem::path& work,
                              const std::string& stage, const std::string& when,
                              const std::function<bool()>& cancelled);

}  // namespace edgedraft::netsim
