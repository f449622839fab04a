#include "netsim/report/statistics.h"

#include <cmath>
#include <map>
#include <numeric>

#include "shared/base/check.h"
#include "shared/base/percentile.h"

namespace edgedraft::netsim {
namespace {

constexpr std::uint64_t kSeed = 20250;
constexpr std::uint64_t kPromptSeed = 20251;

struct Group {
  double sum = 0;
  std::size_t count = 0;
};

// Mean over all members, with an interval from resampled groups.
Estimate bootstrap_mean(const std::map<std::string, Group>& by_name) {
  std::vector<Group> groups;
  Group all;
  for (const auto& [name, group] : by_name) {
    groups.push_back(group);
    all.sum += group.sum;
    all.count += group.count;
  }
  Estimate estimate{.pairs = all.count};
  if (all.count == 0) return estimate;
  estimate.value = estimate.low = estimate.high = all.sum / static_cast<double>(all.count);
  if (groups.size() < kGroupsMin) return estimate;
  add_interval(estimate, kSeed, [&](Random& random) {
    Group drawn;
    for (std::size_t j = 0; j < groups.size(); ++j) {
      const Group& group = groups[random.below(groups.size())];
      drawn.sum += group.sum;
      drawn.count += group.count;
    }
    return drawn.sum / static_cast<double>(drawn.count);
  });
  return estimate;
}

double quotient(const RatioPart& sums) {
  return sums.denominator > 0 ? sums.numerator / sums.denominator : 0;
}

// Resamples prompts if `random` is given.
double mean_over_tasks(const std::vector<RatioTask>& tasks, Random* random) {
  double sum = 0;
  for (const RatioTask& task : tasks) {
    RatioPart ours;
    RatioPart theirs;
    for (std::size_t i = 0; i < task.ours.size(); ++i) {
      const std::size_t at = random ? random->below(task.ours.size()) : i;
      ours.add(task.ours[at]);
      if (!task.theirs.empty()) theirs.add(task.theirs[at]);
    }
    sum += quotient(ours) - quotient(theirs);
  }
  return sum / static_cast<double>(tasks.size());
}

}  // namespace

void add_interval(Estimate& estimate, std::uint64_t seed,
                  const std::function<double(Random&)>& resample) {
  Random random(seed);
  std::vector<double> values;
  for (int i = 0; i < kResamples; ++i) values.push_back(resample(random));
  estimate.low = percentile(values, 0.025);
  estimate.high = percentile(values, 0.975);
  estimate.known = true;
}

Estimate ratio_of(const std::vector<Pair>& pairs) {
  std::map<std::string, Group> groups;
  for (const Pair& pair : pairs) {
    if (!(pair.ours > 0 && pair.theirs > 0)) continue;
    Group& group = groups[pair.group];
    group.sum += std::log(pair.ours / pair.theirs);
    ++group.count;
  }
  Estimate estimate = bootstrap_mean(groups);
  if (estimate.pairs == 0) return estimate;
  estimate.value = std::exp(estimate.value);
  estimate.low = std::exp(estimate.low);
  estimate.high = std::exp(estimate.high);
  return estimate;
}

Estimate difference_of(const std::vector<Pair>& pairs) {
  std::map<std::string, Group> groups;
  for (const Pair& pair : pairs) {
    Group& group = groups[pair.group];
    group.sum += pair.ours - pair.theirs;
    ++group.count;
  }
  return bootstrap_mean(groups);
}

Estimate mean_ratio_of(const std::vector<RatioTask>& tasks) {
  Estimate estimate;
  if (tasks.empty()) return estimate;
  bool enough = true;
  for (const RatioTask& task : tasks) {
    EDGEDRAFT_CHECK(task.theirs.empty() || task.theirs.size() == task.ours.size());
    estimate.pairs += task.ours.size();
    enough = enough && task.ours.size() >= kGroupsMin;
  }
  estimate.value = estimate.low = estimate.high = mean_over_tasks(tasks, nullptr);
  if (!enough) return estimate;
  add_interval(estimate, kPromptSeed,
               [&](Random& random) { return mean_over_tasks(tasks, &random); });
  return estimate;
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace edgedraft::netsim
