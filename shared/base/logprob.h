#pragma once

#include <cstdint>

namespace edgedraft {

// Most entries that are told of a token: the chosen one's, and behind it those of the likeliest.
inline constexpr std::uint32_t kLogprobsMax = 21;

// What the target says of a token at a place: ln p by its logits, before temperature and
// constraints. Never above 0, and finite.
struct Logprob {
  std::uint32_t token = 0;
  float value = 0.0f;
  bool operator==(const Logprob&) const = default;
};

}  // namespace edgedraft
