#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "shared/speculative/draft_tree.h"
#include "shared/speculative/tree_growth.h"
#include "tests/bench/rules/sparse_distribution.h"

namespace edgedraft {

// Draws the nodes of one tree from its drafter's own distributions, for verify_candidates(). The
// drafter grows the tree with draw() as its TreeGrowth::Choice.
//
// Ranks fix the shape: the n-th child drawn gets the score of a drafter's n-th guess, for any
// token. A distribution of fewer tokens has fewer children. So a child's existence does not depend
// on its token or on the nodes below it. Dropping children that look unlikely after the draw would
// bias the answer.
class DrawnDraft {
 public:
  struct Options {
    double temperature;     // above 0
    std::uint32_t breadth;  // breadth of the tree
    // In [0, 1), a new number per call.
    std::function<double()> uniform;
  };
  explicit DrawnDraft(Options options);

  // Samples the children after `path` from the kGuessesMax likeliest of `guesses`, which are sorted
  // likeliest first, and replaces `guesses` with them.
  void draw(std::span<const std::uint32_t> path, std::vector<DraftGuess>& guesses);

  // The distribution from which a row's children were drawn. Requires  children
  const SparseDistribution& distribution(const DraftTree& tree, std::uint32_t row) const;

 private:
  Options options_;
  std::vector<double> ranks_;
  std::map<std::vector<std::uint32_t>, SparseDistribution> distributions_;  // by path
};

}  // namespace edgedraft
