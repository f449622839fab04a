#pragma once

#include <vector>

namespace edgedraft {

// The least of the values that a share q of them does not exceed (nearest rank), so always one of
// them; 0 of none.
double percentile(std::vector<double> values, double q);
double median(std::vector<double> values);

}  // namespace edgedraft
