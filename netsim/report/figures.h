#pragma once

#include <vector>

#include "netsim/report/plot.h"
#include "netsim/report/run_data.h"

namespace edgedraft::netsim {

// Tokens a second against the measured round trip; nothing where fewer than two links were
// measured, and without those that were not.
std::vector<Plot> round_trip_plots(const RunData& data);
// Where the time of a token goes, a bar an arm; one plot a setting, like those below.
std::vector<Plot> phase_plots(const RunData& data);
// The share of gaps between visible updates that are shorter than so much.
std::vector<Plot> gap_plots(const RunData& data);
// One answer's tokens over time, with outages shaded.
std::vector<Plot> timeline_plots(const RunData& data);
// Tokens a second of all clients together; nothing where there was one client throughout.
std::vector<Plot> capacity_plots(const RunData& data);

}  // namespace edgedraft::netsim
