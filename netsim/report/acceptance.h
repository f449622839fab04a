#pragma once

#include <map>
#include <string>
#include <vector>

#include "netsim/report/run_data.h"
#include "netsim/report/statistics.h"

namespace edgedraft::netsim {

// The acceptance lengths of an arm: tokens per cycle, the target's own included.
struct Acceptance {
  std::map<std::string, double> tasks;
  Estimate mean;  // unweighted, of the tasks; intervals from resampling prompts within each task
  // The mean less that of another arm, prompts resampled in pairs; not `known` without one.
  Estimate difference;
};

// The acceptance of answers that were drafted for.
//
// Requires  runs of one setting
Acceptance acceptance_of(const std::vector<const Run*>& ours,
                         const std::vector<const Run*>& theirs);

// A table per setting, for experiments with several tasks.
std::string acceptance_section(const RunData& data);

}  // namespace edgedraft::netsim
