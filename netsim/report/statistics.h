#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/random.h"

namespace edgedraft::netsim {

// With fewer groups, resampling is too unreliable, so no interval is given.
inline constexpr std::size_t kGroupsMin = 5;

// A value with its 95 % interval. With fewer than kGroupsMin groups, `known` is false, and `low`
// and `high` equal the value.
struct Estimate {
  double value = 0;
  double low = 0;
  double high = 0;
  bool known = false;
  std::size_t pairs = 0;

  // True if the interval lies on one side of `nothing`.
  bool claims(double nothing) const { return known && (low > nothing || high < nothing); }
};

// Two measurements under equal conditions. Pairs with the same group (a prompt) may be correlated,
// so groups are resampled, not pairs.
struct Pair {
  std::string group;
  double ours;
  double theirs;
};

// Resamples per bootstrap.
inline constexpr int kResamples = 2000;

// Adds a bootstrap interval: percentiles of `resample` over resampled groups.
void add_interval(Estimate& estimate, std::uint64_t seed,
                  const std::function<double(Random&)>& resample);

// Geometric mean of ours / theirs, with percentiles of a seeded bootstrap. Pairs that are not both
// above 0 are skipped.
Estimate ratio_of(const std::vector<Pair>& pairs);
// The arithmetic mean of ours - theirs, likewise.
Estimate difference_of(const std::vector<Pair>& pairs);

// A prompt's contribution to the two sums of a ratio, such as tokens and cycles.
struct RatioPart {
  double numerator = 0;
  double denominator = 0;

  void add(const RatioPart& other) {
    numerator += other.numerator;
    denominator += other.denominator;
  }
};
// A task's parts by prompt, and optionally those of a comparison: same prompts, same order.
struct RatioTask {
  std::vector<RatioPart> ours;
  std::vector<RatioPart> theirs{};
};
// Unweighted mean over tasks of the ratio of sums, ours minus theirs, with percentiles of a seeded
// bootstrap. Prompts are resampled within each task, ours and theirs together. A task with fewer
// than kGroupsMin prompts leaves it without an interval.
Estimate mean_ratio_of(const std::vector<RatioTask>& tasks);

double mean(const std::vector<double>& values);  // 0 if empty

}  // namespace edgedraft::netsim
