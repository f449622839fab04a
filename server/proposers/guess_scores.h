#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/proposers/guess_list.h"

// Prior probabilities for n-gram guesses. Only their order matters if a tree is cut; next to hints
// they are calibrated by acceptance (Run).
namespace edgedraft::server {

// Guess from a forward dictionary; `rank` counts the newer sequences of the key.
inline Guess forward_guess(std::span<const std::uint32_t> sequence, std::size_t rank) {
  constexpr double kFirst = 0.25;  // first token of the newest sequence
  constexpr double kOlder = 0.85;  // factor per newer sequence
  constexpr double kNext = 0.6;    // each further token
  Guess guess{.tokens = {sequence.begin(), sequence.end()}, .log_probs = {}};
  guess.log_probs.assign(sequence.size(), static_cast<float>(std::log(kNext)));
  guess.log_probs.front() =
      static_cast<float>(std::log(kFirst) + static_cast<double>(rank) * std::log(kOlder));
  return guess;
}

// Log probability of a backward-dictionary token, by context length.
inline float backward_log_prob(std::size_t context) {
  constexpr std::array kByContext{0.3, 0.45, 0.6, 0.7};
  return static_cast<float>(std::log(kByContext[std::min(context, kByContext.size()) - 1]));
}

}  // namespace edgedraft::server
