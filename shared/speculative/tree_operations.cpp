#include "shared/speculative/tree_operations.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "shared/base/check.h"
#include "shared/speculative/best_nodes.h"

namespace edgedraft {
namespace {

struct Node {
  std::uint32_t token;
  std::uint32_t parent;  // index + 1; 0 is the root
  Score score;
};

DraftTree best_of(const std::vector<Node>& nodes, std::uint32_t count) {
  std::vector<std::uint32_t> order(nodes.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  keep_best(order, count, [&](std::uint32_t i) { return nodes[i].score; });
  DraftTree tree;
  std::vector<std::uint32_t> row_of(nodes.size() + 1, 0);
  for (const std::uint32_t i : order) {
    row_of[i + 1] = tree.add(nodes[i].token, row_of[nodes[i].parent], nodes[i].score);
  }
  return tree;
}

}  // namespace

DraftTree cut(const DraftTree& tree, std::uint32_t nodes) {
  if (nodes >= tree.node_count()) return tree;
  std::vector<Node> all;
  for (std::uint32_t row = 1; row < tree.row_count(); ++row) {
    all.push_back({.token = tree.token(row), .parent = tree.parent(row), .score = tree.score(row)});
  }
  return best_of(all, nodes);
}

DraftTree merge(const DraftTree& a, const DraftTree& b, std::uint32_t nodes) {
  EDGEDRAFT_CHECK(nodes <= kTreeNodesMax);
  std::vector<Node> all;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> known;  // (parent, token)
  for (const DraftTree* tree : {&a, &b}) {
    std::vector<std::uint32_t> index_of(tree->row_count(), 0);  // + 1
    for (std::uint32_t row = 1; row < tree->row_count(); ++row) {
      const Node node{.token = tree->token(row),
                      .parent = index_of[tree->parent(row)],
                      .score = tree->score(row)};
      const auto next = static_cast<std::uint32_t>(all.size() + 1);
      const auto [place, is_new] = known.try_emplace({node.parent, node.token}, next);
      index_of[row] = place->second;
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
