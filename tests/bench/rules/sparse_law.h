#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// A distribution over a few tokens, with integer weights: what a drafter draws from. It is rounded
// before anything is drawn, never after: a draft is held against the distribution that it was drawn
// from.
class SparseLaw {
 public:
  // The probability of a token is its weight's part of all.
  struct Entry {
    std::uint32_t token;
    std::uint16_t weight;  // above 0

    bool operator==(const Entry&) const = default;
  };
  static constexpr std::uint16_t kWeightMax = 65535;

  SparseLaw() = default;
  // The law of guesses at this temperature, by their log probabilities. Those that round to no
  // weight are left out, and the likeliest has kWeightMax. Requires  temperature > 0
  SparseLaw(std::span<const DraftGuess> guesses, double temperature);
  // Requires  each token once, no weight of 0
  explicit SparseLaw(std::vector<Entry> entries);

  std::span<const Entry> entries() const { return entries_; }
  double probability(std::uint32_t token) const;
  // The law of another draw if this token may not come again. Requires  a token of the law's
  SparseLaw without(std::uint32_t token) const;
  // Up to `count` tokens, one after another and none twice, by numbers in [0, 1).
  std::vector<std::uint32_t> draw(std::size_t count, const std::function<double()>& uniform) const;

 private:
  std::vector<Entry> entries_;
  std::uint64_t total_ = 0;
};

}  // namespace edgedraft
