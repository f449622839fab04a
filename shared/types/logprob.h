#pragma once

#include <cstdint>

namespace edgedraft {

// Maximum entries per token: the chosen one, then the likeliest.
inline constexpr std::uint32_t kLogprobsMax = 21;

// ln p of a token by the target's logits, before temperature and constraints. Finite and at most 0.
struct Logprob {
  std::uint32_t token = 0;
  float value = 0.0f;
  bool operator==(const Logprob&) const = default;
};

}  // namespace edgedraft
