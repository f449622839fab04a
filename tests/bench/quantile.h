#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace edgedraft::bench {

// The value that a share q of the others does not exceed; 0 of none.
inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0.0;
  const auto at = values.begin() +
                  static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace edgedraft::bench
