#include "shared/speculative/tree_operations.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "shared/base/check.h"
#include "shared/speculative/best_nodes.h"

namespace edgedraft {
namespace {

DraftTree best_of(std::span<const DraftNode> nodes, std::uint32_t count) {
  std::vector<std::uint32_t> kept(nodes.size());
  std::iota(kept.begin(), kept.end(), 0u);
  keep_best(kept, count, nodes);
  return tree_of(nodes, kept);
}

}  // namespace

DraftTree cut(const DraftTree& tree, std::uint32_t nodes) {
  return best_of(tree.nodes(), nodes);
}

DraftTree merge(const DraftTree& a, const DraftTree& b, std::uint32_t nodes) {
  EDGEDRAFT_CHECK(nodes <= kTreeNodesMax);
  std::vector<DraftNode> all;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> known;  // (parent, token)
  for (const DraftTree* tree : {&a, &b}) {
    std::vector<std::uint32_t> row_of(tree->row_count(), 0);
    for (std::uint32_t row = 1; row < tree->row_count(); ++row) {
      DraftNode node = tree->nodes()[row - 1];
      node.parent = row_of[node.parent];
      const auto next = static_cast<std::uint32_t>(all.size() + 1);
      const auto [place, is_new] = known.try_emplace({node.parent, node.token}, next);
      row_of[row] = place->second;
      if (is_new) {
        all.push_back(node);
      } else {
        Score& score = all[place->second - 1].score;
        score = std::max(score, node.score);
      }
    }
  }
  return best_of(all, nodes);
}

}  // namespace edgedraft
