#include "shared/drafting/medusa/medusa_tree.h"

#include <algorithm>
#include <string>
#include <utility>

#include "shared/speculative/draft_tree.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {
namespace {

Error bad_tree(std::string message) {
  return {Errc::bad_file, "the drafter's tree " + std::move(message)};
}

Result<void> check_count(std::size_t count) {
  if (count <= kTreeNodesMax) return {};
  return bad_tree("has " + std::to_string(count) + " nodes; at most " +
                  std::to_string(kTreeNodesMax) + " are supported");
}

// Checks nodes; parents must come before children.
Result<void> check_nodes(std::span<const MedusaChoice> nodes, std::uint32_t head_count) {
  std::vector<std::uint32_t> depths{0};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const MedusaChoice& node = nodes[i];
    const std::uint32_t depth = depths[node.parent] + 1;
    if (depth > head_count) {
      return bad_tree("is deeper than its " + std::to_string(head_count) + " heads");
    }
    if (node.rank >= kGuessesMax) {
      return bad_tree("has a node of rank " + std::to_string(node.rank) + "; the highest rank is " +
                      std::to_string(kGuessesMax - 1));
    }
    if (std::ranges::find(nodes.first(i), node) != nodes.begin() + static_cast<std::ptrdiff_t>(i)) {
      return bad_tree("contains a node twice");
    }
    depths.push_back(depth);
  }
  return {};
}

}  // namespace

Result<std::vector<MedusaChoice>> tree_of_paths(std::vector<std::vector<std::uint32_t>> paths,
                                                std::uint32_t head_count) {
  if (auto checked = check_count(paths.size()); !checked) return checked.error();
  std::ranges::sort(paths, [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  std::vector<MedusaChoice> nodes;
  for (const auto& path : paths) {
    if (path.empty()) return bad_tree("has a node without a rank");
    std::uint32_t parent = 0;
    if (path.size() > 1) {
      const auto found =
          std::ranges::find(paths, std::vector<std::uint32_t>(path.begin(), path.end() - 1));
      if (found == paths.end()) return bad_tree("lacks the parent of a node");
      parent = static_cast<std::uint32_t>(found - paths.begin()) + 1;
    }
    nodes.push_back({.parent = parent, .rank = path.back()});
  }
  if (auto checked = check_nodes(nodes, head_count); !checked) return checked.error();
  return nodes;
}

Result<std::vector<MedusaChoice>> tree_of_arrays(std::span<const std::int32_t> parents,
                                                 std::span<const std::int32_t> ranks,
                                                 std::uint32_t head_count) {
  if (parents.size() != ranks.size()) {
    return bad_tree("has " + std::to_string(parents.size()) + " parents and " +
                    std::to_string(ranks.size()) + " ranks");
  }
  if (auto checked = check_count(parents.size()); !checked) return checked.error();
  std::vector<MedusaChoice> nodes;
  for (std::size_t i = 0; i < parents.size(); ++i) {
    if (parents[i] < 0 || static_cast<std::size_t>(parents[i]) > i || ranks[i] < 0) {
      return bad_tree("has a node whose parent does not come before it, or whose rank is negative");
    }
    nodes.push_back({.parent = static_cast<std::uint32_t>(parents[i]),
                     .rank = static_cast<std::uint32_t>(ranks[i])});
  }
  if (auto checked = check_nodes(nodes, head_count); !checked) return checked.error();
  return nodes;
}

}  // namespace edgedraft
