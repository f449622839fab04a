#pragma once

#include <cmath>
#include <cstdint>

#include "shared/base/random.h"

namespace edgedraft {

// The noise of tokens at a position under a seed, which both ends of a link know.
class DrawNoise {
 public:
  DrawNoise(std::uint64_t seed, std::uint64_t position)
      : key_(mix64(mix64(seed + kStep) + kStep * (position + 1))) {}

  // In (0, 1), of 52 bits.
  double uniform(std::uint32_t token) const { return 1.0 - complement(token); }
  // 1 - uniform(token), exactly.
  double complement(std::uint32_t token) const {
    const std::uint64_t bits = mix64(key_ + kStep * (std::uint64_t{token} + 1)) >> 12;
    return (static_cast<double>(bits) + 0.5) * 0x1.0p-52;
  }
  // A draw of the standard exponential law: the token with the smallest exponential(t) / weight(t)
  // is drawn with a probability that is its weight's part of all. It is at least complement(token).
  double exponential(std::uint32_t token) const { return -std::log1p(-complement(token)); }
  // The same on the scale of logarithms: log weight + gumbel is largest where the other is
  // smallest.
  double gumbel(std::uint32_t token) const { return -std::log(exponential(token)); }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15u;

  std::uint64_t key_;
};

}  // namespace edgedraft
