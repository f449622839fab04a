#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shared/speculative/draft_tree.h"

namespace edgedraft {

// A sequence that may follow the root, and how likely each of its tokens is behind the one before.
struct Guess {
  std::vector<std::uint32_t> tokens;
  std::vector<float> log_probs;
};

// Guesses of several sources in the order of their worth, no more than a method has room for.
// Sequences that begin alike share the nodes of their beginning in the tree.
class GuessList {
 public:
  // Guesses, and tokens of each, at most.
  GuessList(std::size_t count_max, std::size_t length_max)
      : count_max_(count_max), length_max_(length_max) {}

  bool full() const { return guesses_.size() >= count_max_; }
  // One that is there already, is empty or finds no room is left out.
  void add(Guess guess);
  // The paths of a tree to its leaves, in the order in which it has these.
  void add(const DraftTree& tree);

  // The best `nodes_max` nodes of all.
  DraftTree tree(std::uint32_t nodes_max) const;
  std::span<const Guess> guesses() const { return guesses_; }

 private:
  std::size_t count_max_;
  std::size_t length_max_;
  std::vector<Guess> guesses_;
};

}  // namespace edgedraft
