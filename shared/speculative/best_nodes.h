#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "shared/speculative/draft_tree.h"

// Nodes are a range of DraftNode, or of a type with the members used here.
namespace edgedraft {

// Keeps the indices of the `count` best-scored nodes, ascending; ties go to the lower index. The
// result is closed under ancestors if parents have lower indices than their children and at least
// their score.
template <class Nodes>
void keep_best(std::vector<std::uint32_t>& indices, std::uint32_t count, const Nodes& nodes) {
  if (count < indices.size()) {
    const auto better = [&](std::uint32_t a, std::uint32_t b) {
      return nodes[a].score != nodes[b].score ? nodes[a].score > nodes[b].score : a < b;
    };
    std::nth_element(indices.begin(), indices.begin() + count, indices.end(), better);
    indices.resize(count);
  }
  std::sort(indices.begin(), indices.end());
}

// Tree of the nodes at `indices`, in that order.
//
// Requires  children refer to node i as row i + 1; a parent is listed before its children
template <class Nodes>
DraftTree tree_of(const Nodes& nodes, std::span<const std::uint32_t> indices) {
  DraftTree tree;
  std::vector<std::uint32_t> row_of(nodes.size() + 1, 0);
  for (const std::uint32_t i : indices) {
    row_of[i + 1] = tree.add(nodes[i].token, row_of[nodes[i].parent], nodes[i].score);
  }
  return tree;
}

inline constexpr std::uint32_t kOutside = ~0u;

// New indices after the node at `root` becomes the root: 0 for itself, 1, 2, ... for its
// descendants in their order, kOutside for all others.
//
// Requires  a parent has a lower index than its children, and index 0 is the root
template <class Nodes>
std::vector<std::uint32_t> indices_below(std::uint32_t root, const Nodes& nodes) {
  std::vector<std::uint32_t> indices(nodes.size(), kOutside);
  indices[root] = 0;
  std::uint32_t count = 1;
  for (std::uint32_t i = root + 1; i < nodes.size(); ++i) {
    if (indices[nodes[i].parent] != kOutside) indices[i] = count++;
  }
  return indices;
}

}  // namespace edgedraft
