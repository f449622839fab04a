#include "tests/bench/acceptance_counts.h"

#include <cstddef>
#include <cstdio>
#include <numeric>

#include "shared/base/check.h"

namespace edgedraft::bench {
namespace {

std::vector<netsim::RatioPart> parts_of(const Ratio& ratio) {
  EDGEDRAFT_CHECK(ratio.numerators.size() == ratio.denominators.size());
  std::vector<netsim::RatioPart> parts;
  for (std::size_t i = 0; i < ratio.numerators.size(); ++i) {
    parts.push_back({ratio.numerators[i], ratio.denominators[i]});
  }
  return parts;
}

}  // namespace

netsim::Estimate bootstrap_ratio(const Ratio& ratio) {
  return netsim::mean_ratio_of({{.ours = parts_of(ratio)}});
}

std::string interval_text(const netsim::Estimate& estimate, bool with_signs) {
  if (!estimate.known) return "[too few prompts]";
  char text[64];
  if (with_signs) {
    std::snprintf(text, sizeof text, "[%+.2f, %+.2f]", estimate.low, estimate.high);
  } else {
    std::snprintf(text, sizeof text, "[%.2f, %.2f]", estimate.low, estimate.high);
  }
  return text;
}

nlohmann::ordered_json estimate_json(const char* name, const netsim::Estimate& estimate) {
  nlohmann::ordered_json json{{name, estimate.value}, {"low", nullptr}, {"high", nullptr}};
  if (!estimate.known) return json;
  json["low"] = estimate.low;
  json["high"] = estimate.high;
  return json;
}

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
  return netsim::mean_ratio_of(
      {{.ours = parts_of(of.ratio()), .theirs = parts_of(against.ratio())}});
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
