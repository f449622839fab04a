#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// A drafter's sampling distribution: a few tokens with integer weights. It is rounded before any
// draw, never after, because verification uses the distribution that the draft was drawn from.
class SparseDistribution {
 public:
  // A token's probability is its share of the total weight.
  struct Entry {
    std::uint32_t token;
    std::uint16_t weight;  // above 0

    bool operator==(const Entry&) const = default;
  };
  static constexpr std::uint16_t kWeightMax = 65535;

  SparseDistribution() = default;
  // The distribution of guesses at this temperature, by their log probabilities. Guesses that round
  // to zero are dropped, and the likeliest has kWeightMax. Requires  temperature > 0
  SparseDistribution(std::span<const DraftGuess> guesses, double temperature);
  // Requires  each token once, no zero weights
  explicit SparseDistribution(std::vector<Entry> entries);

  std::span<const Entry> entries() const { return entries_; }
  double probability(std::uint32_t token) const;
  // The distribution of the next draw without this token. Requires  a token of the distribution
  SparseDistribution without(std::uint32_t token) const;
  // Draws up to `count` tokens without replacement, by numbers in [0, 1).
  std::vector<std::uint32_t> draw(std::size_t count, const std::function<double()>& uniform) const;

 private:
  std::vector<Entry> entries_;
  std::uint64_t total_ = 0;
};

}  // namespace edgedraft
