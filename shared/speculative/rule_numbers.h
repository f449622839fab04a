#pragma once

#include <cstdint>

#include "shared/base/random.h"

// The numbers of speculative sampling behind a root, one after another: those by which a device
// draws its drafts, and those by which the server accepts them. They are functions of seed and
// root, so that a request that is repeated has the same answer. Each set is independent of the
// other and of what tokens without drafts are drawn by (draw_noise.h): a draft that follows what it
// will be accepted by would bias the answer.
namespace edgedraft {

// `position` is that of the root.
inline Random rule_numbers(std::uint64_t purpose, std::uint64_t seed, std::uint64_t position) {
  return Random(mix64(mix64(seed ^ purpose) + 0x9E3779B97F4A7C15u * (position + 1)));
}

inline Random draft_numbers(std::uint64_t seed, std::uint64_t position) {
  return rule_numbers(0xD6E8FEB86659FD93u, seed, position);
}

inline Random acceptance_numbers(std::uint64_t seed, std::uint64_t position) {
  return rule_numbers(0xA0761D6478BD642Fu, seed, position);
}

}  // namespace edgedraft
