#pragma once

#include <string>

#include "netsim/report/run_data.h"

namespace edgedraft::netsim {

// Sections of the page as HTML; empty where the results have nothing for them.
std::string summary_section(const RunData& data);     // what was measured, and with what
std::string arms_section(const RunData& data);        // a table a setting
std::string published_section(const RunData& data);   // beside a paper's figures
std::string cut_section(const RunData& data);         // success after the link was cut
std::string capacity_section(const RunData& data);    // many clients
std::string prediction_section(const RunData& data);  // what a model of both ends foresaw
std::string calibration_section(const RunData& data);
std::string failure_section(const RunData& data);

}  // namespace edgedraft::netsim
