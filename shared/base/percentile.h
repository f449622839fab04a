#pragma once

#include <vector>

namespace edgedraft {

// Nearest-rank percentile: the smallest value with a share q of all values at or below it. 0 for an
// empty list.
double percentile(std::vector<double> values, double q);
double median(std::vector<double> values);

}  // namespace edgedraft
