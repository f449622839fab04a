#pragma once

#include <cstdint>
#include <span>

#include "shared/base/random.h"

namespace edgedraft {

// A hash of tokens that goes on where it stopped: prefix_hash(b, prefix_hash(a)) is that of a and b
// in a row. It tells texts apart that differ by accident. Anyone who looks for two with the same
// hash finds them, so nothing but the worth of a hint may depend on it.
constexpr std::uint64_t prefix_hash(std::span<const std::uint32_t> tokens,
                                    std::uint64_t before = 0) {
  std::uint64_t hash = before;
  for (const std::uint32_t token : tokens) {
    hash = mix64(hash + 0x9E3779B97F4A7C15u * (std::uint64_t{token} + 1));
  }
  return hash;
}

}  // namespace edgedraft
