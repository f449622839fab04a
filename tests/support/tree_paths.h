#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "shared/speculative/draft_tree.h"

namespace edgedraft::testing {

// The tokens from below the root to a node.
using Path = std::vector<std::uint32_t>;

inline std::vector<Path> paths_of(const DraftTree& tree) {
  std::vector<Path> paths(tree.row_count());
  for (std::uint32_t row = 1; row < tree.row_count(); ++row) {
    paths[row] = paths[tree.parent(row)];
    paths[row].push_back(tree.token(row));
  }
  paths.erase(paths.begin());
  return paths;
}

inline std::map<Path, Score> scores_of(const DraftTree& tree) {
  std::map<Path, Score> scores;
  const auto paths = paths_of(tree);
  for (std::uint32_t i = 0; i < paths.size(); ++i) scores[paths[i]] = tree.nodes()[i].score;
  return scores;
}

inline bool same_scores(const DraftTree& a, const DraftTree& b) {
  return std::ranges::equal(a.nodes(), b.nodes(), {}, &DraftNode::score, &DraftNode::score);
}

}  // namespace edgedraft::testing
