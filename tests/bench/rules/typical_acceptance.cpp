#include "tests/bench/rules/typical_acceptance.h"

#include <algorithm>
#include <cmath>

#include "shared/base/check.h"

namespace edgedraft {

bool is_typical(const DenseDistribution& target, std::uint32_t token,
                const TypicalThreshold& threshold) {
  double entropy = 0.0;
  for (const double p : target) {
    if (p > 0.0) entropy -= p * std::log(p);
  }
  return target[token] > std::min(threshold.epsilon, threshold.delta * std::exp(-entropy));
}

VerifiedPath verify_typical(const DraftTree& tree, const TypicalOptions& options) {
  EDGEDRAFT_CHECK(options.root_position + 1 < options.context_count);
  // The gain of accepting a row and its ancestors.
  struct Taken {
    std::uint32_t length = 0;
    double log_prob = 0.0;
    bool is_taken = false;
  };
  std::vector<Taken> taken(tree.row_count());
  taken[0].is_taken = true;
  std::uint32_t best = 0;
  for (std::uint32_t row = 1; row < tree.row_count(); ++row) {
    const Taken& above = taken[tree.parent(row)];
    const std::uint32_t token = tree.token(row);
    // An end token, or one without a position after it, may only be the last.
    if (!above.is_taken || options.is_end(token) ||
        options.root_position + above.length + 2 >= options.context_count) {
      continue;
    }
    const DenseDistribution& distribution = options.target(tree.parent(row));
    if (!is_typical(distribution, token, options.threshold)) continue;
    taken[row] = {above.length + 1, above.log_prob + std::log(distribution[token]), true};
    const Taken& other = taken[best];
    if (taken[row].length > other.length ||
        (taken[row].length == other.length && taken[row].log_prob > other.log_prob)) {
      best = row;
    }
  }
  VerifiedPath result;
  for (std::uint32_t row = best; row != 0; row = tree.parent(row)) result.path.push_back(row);
  std::ranges::reverse(result.path);
  const DenseDistribution& distribution = options.target(best);
  result.next =
      static_cast<std::uint32_t>(std::ranges::max_element(distribution) - distribution.begin());
  if (options.is_end(result.next)) {
    result.finish = Finish::end_token;
  } else if (options.root_position + taken[best].length + 2 >= options.context_count) {
    result.finish = Finish::context;
  }
  return result;
}

}  // namespace edgedraft
