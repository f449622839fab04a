#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/generation/telemetry/generation_stats.h"
#include "netsim/report/statistics.h"

namespace edgedraft::bench {
using namespace client;

// Means over prompts with their 95 % intervals, computed as in experiment reports
// (netsim::mean_ratio_of). Fewer than netsim::kGroupsMin prompts give no interval.

// sum(numerators) / sum(denominators), one entry per prompt in each.
struct Ratio {
  const std::vector<double>& numerators;
  const std::vector<double>& denominators;
};
// Requires  as many numerators as denominators
netsim::Estimate bootstrap_ratio(const Ratio& ratio);

// "[5.84, 6.20]", with signs if requested; "[too few prompts]".
std::string interval_text(const netsim::Estimate& estimate, bool with_signs = false);
// {NAME: 6.02, "low": 5.84, "high": 6.2}; low and high are null without an interval.
nlohmann::ordered_json estimate_json(const char* name, const netsim::Estimate& estimate);

// Totals of drafting cycles: tokens (including the target's own), passes and rows of the target,
// one entry per prompt.
struct TaskCounts {
  std::vector<double> tokens;
  std::vector<double> cycles;
  std::vector<double> rows;  // including roots

  // Adds a prompt's answer. Requires  cycles in it
  void add(double brought, double made, double computed);
  void add(const GenerationStats& stats);
  Ratio ratio() const { return {tokens, cycles}; }
  netsim::Estimate acceptance_length() const { return bootstrap_ratio(ratio()); }
  double rows_per_token() const;
};

using CountsByTask = std::map<std::string, TaskCounts>;

// The unweighted mean over tasks. Its interval comes from resampling within each task, if each has
// one.
netsim::Estimate mean_acceptance_length(const CountsByTask& tasks);
// The gain in acceptance length over another drafter on the same prompts: per task, and the mean as
// above.
netsim::Estimate acceptance_difference(const TaskCounts& of, const TaskCounts& against);
netsim::Estimate mean_acceptance_difference(const CountsByTask& of, const CountsByTask& against);
double mean_rows_per_token(const CountsByTask& tasks);

}  // namespace edgedraft::bench
