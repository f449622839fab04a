#pragma once

#include <cmath>
#include <cstdint>

#include "shared/base/random.h"

namespace edgedraft {

// Noise of each token at a position under a seed, known to both ends of a link.
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
  // Standard exponential draw: the token with the smallest exponential(t) / weight(t) is drawn with
  // probability weight(t) / total weight. At least complement(token).
  double exponential(std::uint32_t token) const { return -std::log1p(-complement(token)); }
  // Gumbel form: log weight + gumbel is largest for the same token.
  double gumbel(std::uint32_t token) const { return -std::log(exponential(token)); }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15u;

  std::uint64_t key_;
};

}  // namespace edgedraft
