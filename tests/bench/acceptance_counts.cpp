#include "tests/bench/acceptance_counts.h"

#include <numeric>

namespace edgedraft::bench {

void TaskCounts::add(double brought, double made, double computed) {
  tokens.push_back(brought);
  cycles.push_back(made);
  rows.push_back(computed);
}

void TaskCounts::add(const GenerationStats& stats) {
  add(stats.cycle_tokens, stats.cycles, stats.cycles + stats.drafted);
}

double TaskCounts::rows_per_token() const {
  return std::accumulate(rows.begin(), rows.end(), 0.0) /
         std::accumulate(tokens.begin(), tokens.end(), 0.0);
}

netsim::Estimate mean_acceptance_length(const CountsByTask& tasks) {
  std::vector<netsim::RatioTask> parts;
  for (const auto& [task, counts] : tasks) parts.push_back({.ours = parts_of(counts.ratio())});
  return netsim::mean_ratio_of(parts);
}

netsim::Estimate acceptance_difference(const TaskCounts& of, const TaskCounts& against) {
  return bootstrap_difference(of.ratio(), against.ratio());
}

netsim::Estimate mean_acceptance_difference(const CountsByTask& of, const CountsByTask& against) {
  std::vector<netsim::RatioTask> parts;
  for (const auto& [task, counts] : of) {
    parts.push_back(
        {.ours = parts_of(counts.ratio()), .theirs = parts_of(against.at(task).ratio())});
  }
  return netsim::mean_ratio_of(parts);
}

double mean_rows_per_token(const CountsByTask& tasks) {
  double sum = 0.0;
  for (const auto& [task, counts] : tasks) sum += counts.rows_per_token();
  return sum / static_cast<double>(tasks.size());
}

}  // namespace edgedraft::bench
