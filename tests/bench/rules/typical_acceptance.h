#pragma once

#include <cstdint>
#include <functional>

#include "tests/bench/rules/candidate_rule.h"

// MEDUSA's typical acceptance: drafts that are likely enough are accepted, without regard to the
// target's draw. Answers do not follow the target's distribution. Only a baseline for measurements:
// the product verifies by another rule (verification.h).
namespace edgedraft {

// A token is typical if its probability exceeds min(epsilon, delta exp(-H)), with H the entropy of
// the target's distribution in nats.
struct TypicalThreshold {
  double epsilon;
  double delta;  // published: the square root of epsilon
};
bool is_typical(const DenseDistribution& target, std::uint32_t token,
                const TypicalThreshold& threshold);

struct TypicalOptions {
  std::uint32_t root_position;
  std::uint32_t context_count;
  TypicalThreshold threshold;
  // The target's distribution after row `row` of the tree, with temperature and filters.
  std::function<const DenseDistribution&(std::uint32_t row)> target;
  std::function<bool(std::uint32_t token)> is_end;
};

// The longest path of typical tokens, the likeliest among equals, and the likeliest token after it.
//
// Source    Cai et al., Medusa (2024), section 2.3.1
// Requires  root_position + 1 < context_count
VerifiedPath verify_typical(const DraftTree& tree, const TypicalOptions& options);

}  // namespace edgedraft
