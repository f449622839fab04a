#include "shared/base/percentile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace edgedraft {

double percentile(std::vector<double> values, double q) {
  if (values.empty()) return 0.0;
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  const auto index = std::clamp<std::size_t>(rank, 1, values.size()) - 1;
  const auto found = values.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(values.begin(), found, values.end());
  return *found;
}

double median(std::vector<double> values) {
  return percentile(std::move(values), 0.5);
}

}  // namespace edgedraft
