#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "netsim/report/statistics.h"

namespace edgedraft::bench {

// Means over prompts with their 95 % intervals, computed as in experiment reports
// (netsim::mean_ratio_of). Fewer than netsim::kGroupsMin prompts give no interval.

// sum(numerators) / sum(denominators), one entry per prompt in each.
struct Ratio {
  const std::vector<double>& numerators;
  const std::vector<double>& denominators;
};
// Requires  as many numerators as denominators
std::vector<netsim::RatioPart> parts_of(const Ratio& ratio);

netsim::Estimate bootstrap_ratio(const Ratio& ratio);
// The difference between two ratios over the same prompts, which are resampled together.
netsim::Estimate bootstrap_difference(const Ratio& minuend, const Ratio& subtrahend);

// "[5.84, 6.20]", with signs if requested; "[too few prompts]".
std::string interval_text(const netsim::Estimate& estimate, bool with_signs = false);
// {NAME: 6.02, "low": 5.84, "high": 6.2}; low and high are null without an interval.
nlohmann::ordered_json estimate_json(const char* name, const netsim::Estimate& estimate);

}  // namespace edgedraft::bench
