#include "shared/speculative/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace edgedraft {
namespace {

// Of a token whose probability is 0, as OpenAI has it.
constexpr double kNever = -9999.0;

}  // namespace

void append_logprobs(std::span<const float> logits, std::uint32_t chosen, std::uint32_t count,
                     std::vector<Logprob>& to) {
  const double best = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - best);
  const double norm = best + std::log(sum);
  const auto append = [&](std::uint32_t token) {
    const double value = std::clamp(logits[token] - norm, kNever, 0.0);
    to.push_back({.token = token, .value = static_cast<float>(value)});
  };
  append(chosen);
  std::vector<std::uint32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0u);
  const auto end = tokens.begin() + std::min<std::ptrdiff_t>(count - 1, std::ssize(tokens));
  std::partial_sort(tokens.begin(), end, tokens.end(), [&](std::uint32_t a, std::uint32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  std::for_each(tokens.begin(), end, append);
}

}  // namespace edgedraft
