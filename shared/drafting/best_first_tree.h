#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

#include "shared/speculative/draft_tree.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// Less likely paths of a table are not worth a row.
inline constexpr Score kTableScoreFloor = -4.6f;  // 1 %

// A token that followed a context in a table.
struct Follower {
  std::uint32_t token;
  float log_prob;
  std::uint32_t place = 0;  // the table's own handle for continuing from this token
};

// Log probability of a token that followed a context `count` of `total` times. `escape` is the
// weight of unseen tokens, in occurrences, as in PPM.
inline float table_log_probability(std::size_t count, std::size_t total, float escape) {
  return std::log(static_cast<float>(count) / (static_cast<float>(total) + escape));
}

// The likeliest paths of a table that fit the shape, down to kTableScoreFloor. Grows the best nodes
// first, ties in order of discovery. With breadth 1 it is a chain.
//
// Requires  followers(tree, row, place) returns the tokens after a row, likeliest first, at most
//           shape.breadth; `place` is the row's as a follower, 0 for the root
template <class FollowersOf>
DraftTree best_first_tree(const TreeShape& shape, FollowersOf followers) {
  struct Open {
    Score score;
    std::uint32_t parent;  // row
    Follower follower;
    std::uint32_t depth;
    std::uint32_t age;
  };
  const auto worse = [](const Open& a, const Open& b) {
    return a.score != b.score ? a.score < b.score : a.age > b.age;
  };
  std::priority_queue<Open, std::vector<Open>, decltype(worse)> open(worse);
  std::uint32_t age = 0;
  DraftTree tree;
  const auto open_below = [&](std::uint32_t row, std::uint32_t place, std::uint32_t depth) {
    for (const Follower& f : followers(tree, row, place)) {
      const Score score = tree.score(row) + f.log_prob;
      if (score < kTableScoreFloor) continue;
      open.push({.score = score, .parent = row, .follower = f, .depth = depth, .age = age++});
    }
  };
  open_below(0, 0, 1);
  while (!open.empty() && tree.node_count() < shape.nodes) {
    const Open best = open.top();
    open.pop();
    const std::uint32_t row = tree.add(best.follower.token, best.parent, best.score);
    if (best.depth < shape.copied_depth()) open_below(row, best.follower.place, best.depth + 1);
  }
  return tree;
}

}  // namespace edgedraft
