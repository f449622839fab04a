#pragma once

#include <string>

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

}  // namespace edgedraft::netsim
