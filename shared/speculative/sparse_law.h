#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "shared/base/law_entry.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// A law over a few tokens in whole numbers: what a drafter draws from, and what both ends of a link
// can know exactly. It is rounded before anything is drawn, never after: a draft is held against
// the law that it was drawn from.
class SparseLaw {
 public:
  using Entry = LawEntry;

  SparseLaw() = default;
  // The law of guesses at this temperature, by their log probabilities. Those that round to no
  // weight are left out, and the likeliest has kLawWeightMax. Requires  temperature > 0
  SparseLaw(std::span<const DraftGuess> guesses, double temperature);
  // Requires  each token once, no weight of 0
  explicit SparseLaw(LawEntries entries);

  std::span<const Entry> entries() const { return entries_; }
  double probability(std::uint32_t token) const;
  // The law of another draw if this token may not come again. Requires  a token of the law's
  SparseLaw without(std::uint32_t token) const;
  // Up to `count` tokens, one after another and none twice, by numbers in [0, 1).
  std::vector<std::uint32_t> draw(std::size_t count, const std::function<double()>& uniform) const;

 private:
  LawEntries entries_;
  std::uint64_t total_ = 0;
};

}  // namespace edgedraft
