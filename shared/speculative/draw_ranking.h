#pragma once

#include <cstdint>
#include <vector>

#include "shared/speculative/tree_growth.h"
#include "shared/types/sampling_params.h"

namespace edgedraft {

// Keeps the guesses that may be chosen (`may`, by index) and renormalises their probabilities.
void keep_allowed(const std::vector<bool>& may, std::vector<DraftGuess>& guesses);

// Ranks guesses for the token at `position` by their chance of being drawn there. A drafter with
// the seed knows the noise; its own distribution estimates the target's. Input: likeliest first,
// without temperature. Output: those that pass the filters, likeliest to be drawn first, with log
// probabilities of being drawn that sum to certainty.
//
// Requires  not greedy
void rank_by_draw(const SamplingParams& params, std::uint64_t position,
                  std::vector<DraftGuess>& guesses);

}  // namespace edgedraft
