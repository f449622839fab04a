#include "tests/bench/acceptance_counts.h"

#include <cmath>
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

namespace {

// The unweighted mean over the tasks of what `mean_of` finds for each.
template <class MeanOf>
netsim::Estimate mean_of_tasks(const CountsByTask& tasks, const MeanOf& mean_of) {
  netsim::Estimate mean{.known = !tasks.empty()};
  double variance = 0.0;
  for (const auto& [task, counts] : tasks) {
    const netsim::Estimate m = mean_of(task, counts);
    mean.value += m.value;
    mean.known = mean.known && m.known;
    mean.pairs += m.pairs;
    const double deviation = (m.high - m.low) / (2 * 1.96);
    variance += deviation * deviation;
  }
  const auto count = static_cast<double>(tasks.size());
  mean.value /= count;
  const double half = mean.known ? 1.96 * std::sqrt(variance) / count : 0.0;
  mean.low = mean.value - half;
  mean.high = mean.value + half;
  return mean;
}

}  // namespace

netsim::Estimate mean_acceptance_length(const CountsByTask& tasks) {
  return mean_of_tasks(
      tasks, [](const auto&, const TaskCounts& counts) { return counts.acceptance_length(); });
}

netsim::Estimate acceptance_difference(const TaskCounts& of, const TaskCounts& against) {
  return bootstrap_difference({of.tokens, of.cycles}, {against.tokens, against.cycles});
}

netsim::Estimate mean_acceptance_difference(const CountsByTask& of, const CountsByTask& against) {
  return mean_of_tasks(of, [&](const std::string& task, const TaskCounts& counts) {
    return acceptance_difference(counts, against.at(task));
  });
}

double mean_rows_per_token(const CountsByTask& tasks) {
  double sum = 0.0;
  for (const auto& [task, counts] : tasks) sum += counts.rows_per_token();
  return sum / static_cast<double>(tasks.size());
}

}  // namespace edgedraft::bench
