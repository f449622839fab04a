#pragma once

#include <vector>

namespace edgedraft {

// Probability that a drafter's first, second, ... choice is right, given `acceptance` for the
// first. The other ranks share the misses as measured with the demo's drafters
// (docs/records/drafters/comparison.md, "How far ahead drafting pays").
//
// Requires  acceptance in [0, 1]
std::vector<double> rank_probabilities(double acceptance);

}  // namespace edgedraft
