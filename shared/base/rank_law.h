#pragma once

#include <vector>

namespace edgedraft {

// How often a drafter's likeliest token is right, its second, and so on, if the likeliest is right
// with probability `acceptance`: of the misses the next ranks take what they take of the demo's
// drafters' (docs/records/drafters/comparison.md, "How far ahead drafting pays").
//
// Requires  acceptance in [0, 1]
std::vector<double> rank_law(double acceptance);

}  // namespace edgedraft
