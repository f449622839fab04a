#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/base/logprob.h"

namespace edgedraft {

// Appends ln p of the chosen token and of the count - 1 likeliest, the likeliest first and ties by
// the lower token; fewer if the vocabulary has no more. What is told is finite, whatever the logits
// are: one that is no number counts as impossible.
//
// Shapes    logits [vocabulary]
// Requires  count > 0
void append_logprobs(std::span<const float> logits, std::uint32_t chosen, std::uint32_t count,
                     std::vector<Logprob>& to);

}  // namespace edgedraft
