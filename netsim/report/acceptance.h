#pragma once

#include <map>
#include <string>
#include <vector>

#include "netsim/report/run_data.h"
#include "netsim/report/statistics.h"

namespace edgedraft::netsim {

// An arm's acceptance lengths: tokens per cycle, the target's own included.
struct Acceptance {
  std::map<std::string, double> tasks;
  Estimate mean;  // unweighted over tasks; intervals resample prompts within each task
  // Difference to another arm's mean, prompts resampled in pairs; not `known` without one.
  Estimate difference;
};

// Acceptance of drafted answers.
//
// Requires  runs of one setting
Acceptance acceptance_of(const std::vector<const Run*>& ours,
                         const std::vector<const Run*>& theirs);

// One table per setting, for experiments with several tasks.
std::string acceptance_section(const RunData& data);

}  // namespace edgedraft::netsim
