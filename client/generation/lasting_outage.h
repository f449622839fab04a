#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace edgedraft {

// An outage of so many tokens lasts: the server's own text has most likely left the drafter's by
// then, and what is written is for a reader.
inline constexpr std::uint32_t kLastingOutageTokens = 32;

// Forbids the tokens that would say four tokens of the answer again: a small drafter's likeliest
// text soon runs in a circle. What stood before the answer, as names and placeholders did, may be
// said as often as it takes. Changes nothing where that would leave no token.
//
// `text` is that before the answer, too, which begins at `answer_first`.
// Shapes    logits [vocabulary]
// Source    no-repeat n-grams: Paulus and others, A Deep Reinforced Model for Abstractive
//           Summarization (2018), section 2.5
void avoid_circles(std::span<const std::uint32_t> text, std::size_t answer_first,
                   std::span<float> logits);

}  // namespace edgedraft
