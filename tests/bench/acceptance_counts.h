#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/generation/generation_stats.h"
#include "netsim/report/statistics.h"
#include "tests/bench/bootstrap.h"

namespace edgedraft::bench {

// What cycles of drafting brought: tokens (the target's own included), passes and rows of the
// target, a number per prompt.
struct TaskCounts {
  std::vector<double> tokens;
  std::vector<double> cycles;
  std::vector<double> rows;  // roots and nodes

  // Counts a prompt's answer. Requires  cycles in it
  void add(double brought, double made, double computed);
  void add(const GenerationStats& stats);
  Ratio ratio() const { return {tokens, cycles}; }
  netsim::Estimate acceptance_length() const { return bootstrap_ratio(ratio()); }
  double rows_per_token() const;
};

using CountsByTask = std::map<std::string, TaskCounts>;

// The unweighted mean of the tasks; its interval from resampling within each task, if each has one.
netsim::Estimate mean_acceptance_length(const CountsByTask& tasks);
// How much longer these are than those of another drafter on the same prompts: by task, and the
// mean likewise.
netsim::Estimate acceptance_difference(const TaskCounts& of, const TaskCounts& against);
netsim::Estimate mean_acceptance_difference(const CountsByTask& of, const CountsByTask& against);
double mean_rows_per_token(const CountsByTask& tasks);

}  // namespace edgedraft::bench
