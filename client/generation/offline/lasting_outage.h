#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace edgedraft::client {

// Offline tokens after which an outage counts as lasting. The server's text has then most likely
// diverged from the drafter's, and quality for the reader matters more than agreement.
inline constexpr std::uint32_t kLastingOutageTokens = 32;

// Masks tokens that would repeat a 4-gram of the answer, because a small drafter soon loops. Text
// from before the answer, such as names and placeholders, may repeat. Changes nothing if every
// token would be masked.
//
// `text` includes the text before the answer, which begins at `answer_first`.
//
// Shapes    logits [vocabulary]
// Source    no-repeat n-grams: Paulus et al., A Deep Reinforced Model for Abstractive Summarization
//           (2018), section 2.5
void avoid_circles(std::span<const std::uint32_t> text, std::size_t answer_first,
                   std::span<float> logits);

}  // namespace edgedraft::client
