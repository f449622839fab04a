#include "client/generation/offline/drafter_confidence.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace edgedraft::client {

void DrafterConfidence::observe(std::span<const float> logits, std::uint32_t token) {
  const float best = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - best));
  logs_[count_++ % kTokens] = static_cast<double>(logits[token] - best) - std::log(sum);
}

bool DrafterConfidence::unsure() const {
  if (count_ < kTokens) return false;
  const double mean = std::accumulate(std::begin(logs_), std::end(logs_), 0.0) / kTokens;
  return !(std::exp(mean) >= floor_);
}

}  // namespace edgedraft::client
