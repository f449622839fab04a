#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shared/speculative/draft_tree.h"

namespace edgedraft::server {

// A token sequence that may follow the root, with each token's probability given the previous ones.
struct Guess {
  std::vector<std::uint32_t> tokens;
  std::vector<float> log_probs;
};

// Guesses of several sources, best first, up to a method's limits. Sequences with a common prefix
// share its nodes in the tree.
class GuessList {
 public:
  // Maximum guesses, and tokens per guess.
  GuessList(std::size_t count_max, std::size_t length_max)
      : count_max_(count_max), length_max_(length_max) {}

  bool full() const { return guesses_.size() >= count_max_; }
  // Ignores duplicates, empty guesses, and guesses beyond the limit.
  void add(Guess guess);
  // Adds the tree's root-to-leaf paths, in leaf order.
  void add(const DraftTree& tree);

  // The best `nodes_max` nodes of all.
  DraftTree tree(std::uint32_t nodes_max) const;
  std::span<const Guess> guesses() const { return guesses_; }

 private:
  std::size_t count_max_;
  std::size_t length_max_;
  std::vector<Guess> guesses_;
};

}  // namespace edgedraft::server
