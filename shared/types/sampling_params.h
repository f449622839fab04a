#pragma once

#include <cstdint>

namespace edgedraft {

// Sampling of the next token from the target's logits.
struct SamplingParams {
  float temperature = 0.0f;  // 0: the most likely token; else > 0
  std::uint32_t top_k = 0;   // keep the k likeliest; 0 keeps all
  float top_p = 1.0f;        // keep the likeliest whose probabilities reach p; 1 keeps all
  float min_p = 0.0f;        // keep those with at least min_p times the best's probability
  std::uint64_t seed = 0;

  bool greedy() const { return temperature == 0.0f; }
  bool keeps_all() const { return top_k == 0 && top_p >= 1.0f && min_p <= 0.0f; }
  bool operator==(const SamplingParams&) const = default;
};

}  // namespace edgedraft
