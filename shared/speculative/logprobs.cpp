#include "shared/speculative/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace edgedraft {
namespace {

// Value for a token of probability 0, as in OpenAI's API.
constexpr double kNever = -9999.0;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Treats NaN as impossible.
double number(float logit) {
  return std::isnan(logit) ? -kInfinity : double{logit};
}

}  // namespace

void append_logprobs(std::span<const float> logits, std::uint32_t chosen, std::uint32_t count,
                     std::vector<Logprob>& to) {
  double best = -kInfinity;
  for (const float logit : logits) best = std::max(best, number(logit));
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(number(logit) - best);
  const double norm = best + std::log(sum);
  const auto append = [&](std::uint32_t token) {
    const double logit = number(logits[token]);
    // With an infinite best logit the infinitely likely token is certain and all others are
    // impossible.
    const double value = std::isfinite(best)  ? std::clamp(logit - norm, kNever, 0.0)
                         : logit == kInfinity ? 0.0
                                              : kNever;
    to.push_back({.token = token, .value = static_cast<float>(value)});
  };
  append(chosen);
  std::vector<std::uint32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0u);
  const auto end = tokens.begin() + std::min<std::ptrdiff_t>(count - 1, std::ssize(tokens));
  std::partial_sort(tokens.begin(), end, tokens.end(), [&](std::uint32_t a, std::uint32_t b) {
    const double of_a = number(logits[a]);
    const double of_b = number(logits[b]);
    return of_a != of_b ? of_a > of_b : a < b;
  });
  std::for_each(tokens.begin(), end, append);
}

}  // namespace edgedraft
