#pragma once

#include <string>
#include <vector>

#include "netsim/report/plot.h"
#include "netsim/report/run_data.h"

namespace edgedraft::netsim {

// HTML sections of the report; empty if the results have no data for them.
std::string summary_section(const RunData& data);     // what was measured, and how
std::string arms_section(const RunData& data);        // one table per setting
std::string published_section(const RunData& data);   // compared with a paper's figures
std::string cut_section(const RunData& data);         // success after the link was cut
std::string capacity_section(const RunData& data);    // many clients
std::string prediction_section(const RunData& data);  // predictions of a model of both ends
std::string calibration_section(const RunData& data);
std::string failure_section(const RunData& data);

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
