#pragma once

#include <cstdint>
#include <vector>

#include "shared/base/sampling_params.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// Leaves the guesses that may be chosen, by place, to share the probability of all.
void keep_allowed(const std::vector<bool>& may, std::vector<DraftGuess>& guesses);

// Ranks guesses at the token at `position` by what the draw there will make of them: a drafter that
// knows the seed knows the noise, and lacks only the target's law, of which its own
// is an estimate. They come likeliest first and without temperature. They leave likeliest to be
// chosen first, without those that the filters cut off, and their log probabilities are those of
// being chosen, all guesses together being sure of it.
//
// Requires  not greedy
void rank_by_draw(const SamplingParams& params, std::uint64_t position,
                  std::vector<DraftGuess>& guesses);

}  // namespace edgedraft
