#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/random.h"

namespace edgedraft::netsim {

// Resampling fewer groups tells next to nothing about what others would give.
inline constexpr std::size_t kGroupsMin = 5;

// A value with its 95 % interval. Fewer than kGroupsMin groups give none: `known` is false, and
// `low` and `high` are the value.
struct Estimate {
  double value = 0;
  double low = 0;
  double high = 0;
  bool known = false;
  std::size_t pairs = 0;

  // Whether the interval lies wholly on one side of `nothing`.
  bool claims(double nothing) const { return known && (low > nothing || high < nothing); }
};

// Two measurements under the same circumstances. What shares a group (a prompt) may resemble each
// other, so groups are resampled and not pairs.
struct Pair {
  std::string group;
  double ours;
  double theirs;
};

// How often a bootstrap draws.
inline constexpr int kResamples = 2000;

// Gives it the interval of a bootstrap: percentiles of what `resample` finds with groups drawn
// anew.
void add_interval(Estimate& estimate, std::uint64_t seed,
                  const std::function<double(Random&)>& resample);

// The geometric mean of ours / theirs, with a seeded bootstrap's percentiles. Pairs that are not
// both above 0 are left out.
Estimate ratio_of(const std::vector<Pair>& pairs);
// The arithmetic mean of ours - theirs, likewise.
Estimate difference_of(const std::vector<Pair>& pairs);

// What a prompt adds to the two sums of a ratio: tokens and cycles, say.
struct RatioPart {
  double numerator = 0;
  double denominator = 0;

  void add(const RatioPart& other) {
    numerator += other.numerator;
    denominator += other.denominator;
  }
};
// The parts of a task's prompts, and of what they are compared with, if with anything: as many, of
// the same prompts in the same order.
struct RatioTask {
  std::vector<RatioPart> ours;
  std::vector<RatioPart> theirs{};
};
// The unweighted mean over the tasks of the ratio of their sums, less that of theirs, with a seeded
// bootstrap's percentiles: prompts are drawn anew within each task, ours and theirs together. A
// task of fewer than kGroupsMin prompts leaves it without an interval.
Estimate mean_ratio_of(const std::vector<RatioTask>& tasks);

double mean(const std::vector<double>& values);  // 0 of none

}  // namespace edgedraft::netsim
