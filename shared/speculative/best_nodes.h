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

inline constexpr std::uint32_t kOutside = ~0u;

// The indices that nodes get if the one at `root` becomes the root of what lies below it: 0 for
// itself, 1, 2, ... for those below it in the order that they have, kOutside for all others.
//
// Requires  a parent has a lower index than its children, and index 0 is the root
template <class Nodes, class ParentOf>
std::vector<std::uint32_t> indices_below(std::uint32_t root, const Nodes& nodes,
                                         const ParentOf& parent_of) {
  std::vector<std::uint32_t> indices(nodes.size(), kOutside);
  indices[root] = 0;
  std::uint32_t count = 1;
  for (std::uint32_t i = root + 1; i < nodes.size(); ++i) {
    if (indices[parent_of(nodes[i])] != kOutside) indices[i] = count++;
  }
  return indices;
}

}  // namespace edgedraft
