#pragma once

#include <vector>

#include "netsim/report/plot.h"
#include "netsim/report/run_data.h"

namespace edgedraft::netsim {

// Tokens per second against the measured round trip, for measured links; empty if there are fewer
// than two.
std::vector<Plot> round_trip_plots(const RunData& data);
// Time per token by phase, one bar per arm; one plot per setting, like those below.
std::vector<Plot> phase_plots(const RunData& data);
// Cumulative distribution of gaps between visible updates.
std::vector<Plot> gap_plots(const RunData& data);
// One answer's tokens over time, with outages shaded.
std::vector<Plot> timeline_plots(const RunData& data);
// Tokens per second of all clients together; empty if all trials had one client.
std::vector<Plot> capacity_plots(const RunData& data);

}  // namespace edgedraft::netsim
