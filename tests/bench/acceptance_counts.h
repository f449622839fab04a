#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/generation/telemetry/generation_stats.h"
#include "netsim/report/statistics.h"
#include "tests/bench/bootstrap.h"

namespace edgedraft::bench {
using namespace client;

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
