#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/types/logprob.h"

namespace edgedraft {

// Appends ln p of the chosen token and of the count - 1 likeliest, fewer if the vocabulary is
// smaller. The likeliest come first; ties go to the lower token. Values are finite for any logits;
// NaN counts as impossible.
//
// Shapes    logits [vocabulary]
// Requires  count > 0
void append_logprobs(std::span<const float> logits, std::uint32_t chosen, std::uint32_t count,
                     std::vector<Logprob>& to);

}  // namespace edgedraft
