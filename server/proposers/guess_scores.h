#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/proposers/guess_list.h"

// What guesses from n-grams are held to be worth before anything was seen of them. Only their order
// matters where a tree is cut; what they say of themselves beside a device's hints is calibrated by
// what came of it (Run).
namespace edgedraft {

// A sequence of a forward dictionary, `rank` others having been added later.
inline Guess forward_guess(std::span<const std::uint32_t> sequence, std::size_t rank) {
  constexpr double kFirst = 0.25;  // of the newest one's first token
  constexpr double kOlder = 0.85;  // for each sequence that is newer
  constexpr double kNext = 0.6;    // of a token behind the one before it
  Guess guess{.tokens = {sequence.begin(), sequence.end()}, .log_probs = {}};
  guess.log_probs.assign(sequence.size(), static_cast<float>(std::log(kNext)));
  guess.log_probs.front() =
      static_cast<float>(std::log(kFirst) + static_cast<double>(rank) * std::log(kOlder));
  return guess;
}

// A token of a backward dictionary behind a context of so many tokens.
inline float backward_log_prob(std::size_t context) {
  constexpr std::array kByContext{0.3, 0.45, 0.6, 0.7};
  return static_cast<float>(std::log(kByContext[std::min(context, kByContext.size()) - 1]));
}

}  // namespace edgedraft
