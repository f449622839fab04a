#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace edgedraft {

// Keeps the `count` indices with the best scores, ascending; ties go to the lower index. If parents
// have lower indices than their children and score no less, what is kept is closed under ancestors.
template <class ScoreOf>
void keep_best(std::vector<std::uint32_t>& indices, std::uint32_t count, const ScoreOf& score_of) {
  if (count < indices.size()) {
    const auto better = [&](std::uint32_t a, std::uint32_t b) {
      const auto sa = score_of(a);
      const auto sb = score_of(b);
      return sa != sb ? sa > sb : a < b;
    };
    std::nth_element(indices.begin(), indices.begin() + count, indices.end(), better);
    indices.resize(count);
  }
  std::sort(indices.begin(), indices.end());
}

}  // namespace edgedraft
