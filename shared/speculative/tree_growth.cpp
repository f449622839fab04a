#include "shared/speculative/tree_growth.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

struct Candidate {
  std::uint32_t token;
  std::uint32_t parent;  // candidate index + 1; 0 is the root
  std::uint32_t depth;
  float score;              // sum of log-probabilities along the path
  AncestorMask draft_rows;  // the network rows of the ancestors; self excluded until expanded
};

// The `count` best by score, ties to the older: a parent is older and never scores less than its
// child, so the best candidates are closed under ancestors.
std::vector<std::uint32_t> best(const std::vector<Candidate>& candidates, std::uint32_t first,
                                std::uint32_t count) {
  std::vector<std::uint32_t> order(candidates.size() - first);
  std::iota(order.begin(), order.end(), first);
  const auto better = [&](std::uint32_t a, std::uint32_t b) {
    const float sa = candidates[a].score;
    const float sb = candidates[b].score;
    return sa != sb ? sa > sb : a < b;
  };
  if (count < order.size()) {
    std::nth_element(order.begin(), order.begin() + count, order.end(), better);
    order.resize(count);
  }
  std::sort(order.begin(), order.end());
  return order;
}

// Appends the `children` likeliest tokens behind each of the network's current logits rows. Row i
// belongs to candidate parents[i] - 1, or to the root.
void add_children(DraftNetwork& network, std::span<const std::uint32_t> parents,
                  std::uint32_t children, std::vector<Candidate>& candidates) {
  const auto rows = static_cast<std::uint32_t>(parents.size());
  std::vector<std::uint32_t> tokens(rows * children);
  std::vector<float> log_probs(rows * children);
  network.backend().top_k(
      {.logits = network.logits(), .k = children, .tokens = tokens, .log_probs = log_probs});
  if (const auto draft_tokens = network.draft_tokens(); !draft_tokens.empty()) {
    for (std::uint32_t& token : tokens) token = draft_tokens[token];
  }
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::uint32_t parent = parents[row];
    for (std::uint32_t i = 0; i < children; ++i) {
      Candidate child{.token = tokens[row * children + i],
                      .parent = parent,
                      .depth = 1,
                      .score = log_probs[row * children + i],
                      .draft_rows = {}};
      if (parent > 0) {
        const Candidate& above = candidates[parent - 1];
        child.depth = above.depth + 1;
        child.score += above.score;
        child.draft_rows = above.draft_rows;
      }
      candidates.push_back(child);
    }
  }
}

}  // namespace

bool valid(const TreeShape& shape) {
  return shape.breadth >= 1 && shape.breadth <= kTreeBreadthMax && shape.depth >= 1 &&
         shape.depth <= kTreeDepthMax && shape.nodes >= 1 && shape.nodes <= kTreeNodesMax &&
         (shape.depth - 1) * shape.breadth < kMaskRowsMax;
}

DraftTree grow_tree(DraftNetwork& network, const TreeShape& shape) {
  EDGEDRAFT_CHECK(valid(shape));
  const std::uint32_t children = std::min(shape.breadth, network.logits().cols);
  std::vector<Candidate> candidates;
  const std::uint32_t root = 0;
  add_children(network, std::span(&root, 1), children, candidates);

  std::uint32_t level_first = 0;
  std::uint32_t draft_rows = 0;
  for (std::uint32_t depth = 2; depth <= shape.depth; ++depth) {
    const std::vector<std::uint32_t> frontier = best(candidates, level_first, shape.breadth);
    level_first = static_cast<std::uint32_t>(candidates.size());
    std::vector<DraftNode> nodes;
    std::vector<std::uint32_t> parents;
    for (const std::uint32_t index : frontier) {
      Candidate& c = candidates[index];
      nodes.push_back({.token = c.token, .depth = c.depth, .ancestors = c.draft_rows});
      parents.push_back(index + 1);
      c.draft_rows.set(draft_rows++);
    }
    network.expand(nodes);
    add_children(network, parents, children, candidates);
  }

  DraftTree tree;
  std::vector<std::uint32_t> row_of(candidates.size() + 1, 0);
  for (const std::uint32_t index : best(candidates, 0, shape.nodes)) {
    row_of[index + 1] = tree.add(candidates[index].token, row_of[candidates[index].parent]);
  }
  return tree;
}

}  // namespace edgedraft
