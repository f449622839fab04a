#include "shared/speculative/draft_tree.h"

#include <algorithm>
#include <optional>

#include "shared/base/check.h"

namespace edgedraft {

std::uint32_t DraftTree::add(std::uint32_t token, std::uint32_t parent, Score score) {
  EDGEDRAFT_CHECK(parent <= node_count());
  EDGEDRAFT_CHECK(node_count() < kTreeNodesMax);
  // std::max would keep a NaN.
  const Score kept = score > kScoreMin ? std::min(score, this->score(parent)) : kScoreMin;
  nodes_.push_back({.token = token, .parent = parent, .score = kept});
  return node_count();
}

std::uint32_t DraftTree::child(std::uint32_t row, std::uint32_t token) const {
  for (std::uint32_t below = row + 1; below < row_count(); ++below) {
    if (parent(below) == row && this->token(below) == token) return below;
  }
  return 0;
}

std::vector<std::uint32_t> DraftTree::depths() const {
  std::vector<std::uint32_t> depth(row_count(), 0);
  for (std::uint32_t row = 1; row < row_count(); ++row) depth[row] = depth[parent(row)] + 1;
  return depth;
}

std::vector<AncestorMask> DraftTree::masks() const {
  std::vector<AncestorMask> masks(row_count());
  masks[0].set(0);
  for (std::uint32_t row = 1; row < row_count(); ++row) {
    masks[row] = masks[parent(row)];
    masks[row].set(row);
  }
  return masks;
}

std::vector<HintNode> complete_hints(const DraftTree& tree) {
  std::vector<HintNode> hints;
  for (const auto& [token, parent, score] : tree.nodes()) {
    const std::size_t distance = parent == 0 ? 0 : hints.size() + 1 - parent;
    hints.push_back({.token = token, .distance = static_cast<std::uint16_t>(distance)});
  }
  return hints;
}

DraftTree tree_of(std::span<const HintNode> hints, std::uint32_t depth_max,
                  std::uint32_t vocabulary_count) {
  DraftTree tree;
  std::vector<std::uint32_t> depths{0};  // depth of each row
  std::vector<std::optional<std::uint32_t>> row_of;
  for (const auto& [token, distance, score] : hints) {
    const auto parent = distance == 0 ? 0 : row_of[row_of.size() - distance];
    row_of.emplace_back();
    if (!parent || depths[*parent] == depth_max || token >= vocabulary_count) continue;
    depths.push_back(depths[*parent] + 1);
    row_of.back() = tree.add(token, *parent);
  }
  return tree;
}

}  // namespace edgedraft
