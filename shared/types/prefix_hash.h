#pragma once

#include <cstdint>
#include <span>

#include "shared/base/random.h"

namespace edgedraft {

// Incremental hash of tokens: prefix_hash(b, prefix_hash(a)) equals that of a followed by b. Not
// collision resistant: an attacker can construct collisions, so only the usefulness of a hint may
// depend on it.
constexpr std::uint64_t prefix_hash(std::span<const std::uint32_t> tokens,
                                    std::uint64_t before = 0) {
  std::uint64_t hash = before;
  for (const std::uint32_t token : tokens) {
    hash = mix64(hash + 0x9E3779B97F4A7C15u * (std::uint64_t{token} + 1));
  }
  return hash;
}

}  // namespace edgedraft
