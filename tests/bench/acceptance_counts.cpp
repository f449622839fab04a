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
Mean mean_of_tasks(const CountsByTask& tasks, const MeanOf& mean_of) {
  Mean mean;
  double variance = 0.0;
  for (const auto& [task, counts] : tasks) {
    const Mean m = mean_of(task, counts);
    mean.value += m.value;
    const double deviation = (m.high - m.low) / (2 * 1.96);
    variance += deviation * deviation;
  }
  const auto count = static_cast<double>(tasks.size());
  mean.value /= count;
  const double half = 1.96 * std::sqrt(variance) / count;
  mean.low = mean.value - half;
  mean.high = mean.value + half;
  return mean;
}

}  // namespace

Mean mean_acceptance_length(const CountsByTask& tasks) {
  return mean_of_tasks(
      tasks, [](const auto&, const TaskCounts& counts) { return counts.acceptance_length(); });
}

Mean acceptance_difference(const TaskCounts& of, const TaskCounts& against) {
  return bootstrap_difference({of.tokens, of.cycles}, {against.tokens, against.cycles});
}

Mean mean_acceptance_difference(const CountsByTask& of, const CountsByTask& against) {
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
