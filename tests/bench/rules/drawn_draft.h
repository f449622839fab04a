#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "shared/speculative/draft_tree.h"
#include "shared/speculative/tree_growth.h"
#include "tests/bench/rules/sparse_law.h"

namespace edgedraft {

// Draws the nodes of one tree from its drafter's own laws, for verify_candidates(). The drafter
// grows the tree with draw() as its TreeGrowth::Choice.
//
// Which nodes there are is settled by ranks: a child that is drawn first, second, ... scores as
// likely as a drafter's first, second, ... guess is to be right, whatever it is, and a law of fewer
// tokens has fewer children. So whether a node has a child more does not depend on that child, nor
// on what is below it: to leave out what looks unlikely, once it is drawn, would bias the answer.
class DrawnDraft {
 public:
  struct Options {
    double temperature;     // above 0
    std::uint32_t breadth;  // of the tree
    // In [0, 1), a new number each time.
    std::function<double()> uniform;
  };
  explicit DrawnDraft(Options options);

  // Samples the children after `path` from the kGuessesMax likeliest of the drafter's guesses
  // there, which come likeliest first, and replaces the guesses by them.
  void draw(std::span<const std::uint32_t> path, std::vector<DraftGuess>& guesses);

  // That the children of a row were drawn from. Requires  children
  const SparseLaw& law(const DraftTree& tree, std::uint32_t row) const;

 private:
  Options options_;
  std::vector<double> ranks_;
  std::map<std::vector<std::uint32_t>, SparseLaw> laws_;  // by path
};

}  // namespace edgedraft
