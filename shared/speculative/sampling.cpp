#include "shared/speculative/sampling.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "shared/base/check.h"
#include "shared/base/random.h"

namespace edgedraft {
namespace {

// Likelier first; equal weights by lowest token, so that every filter has one answer.
constexpr auto kLikelier = [](const auto& a, const auto& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
};

}  // namespace

std::uint32_t argmax(std::span<const float> logits) {
  return static_cast<std::uint32_t>(
      std::distance(logits.begin(), std::max_element(logits.begin(), logits.end())));
}

void Sampler::collect(std::span<const float> logits) {
  const double best = *std::max_element(logits.begin(), logits.end());
  candidates_.clear();
  candidates_.reserve(logits.size());
  for (std::uint32_t token = 0; token < logits.size(); ++token) {
    const double weight = std::exp((logits[token] - best) / params_.temperature);
    if (weight > 0.0) candidates_.push_back({.token = token, .weight = weight});
  }
}

void Sampler::keep_top_k() {
  if (params_.top_k == 0 || params_.top_k >= candidates_.size()) return;
  const auto last = candidates_.begin() + params_.top_k;
  std::nth_element(candidates_.begin(), last, candidates_.end(), kLikelier);
  candidates_.erase(last, candidates_.end());
}

void Sampler::keep_top_p() {
  if (params_.top_p >= 1.0f) return;
  std::sort(candidates_.begin(), candidates_.end(), kLikelier);
  double total = 0.0;
  for (const Candidate& c : candidates_) total += c.weight;
  double sum = 0.0;
  std::size_t kept = 0;
  while (kept < candidates_.size() && (kept == 0 || sum < params_.top_p * total)) {
    sum += candidates_[kept++].weight;
  }
  candidates_.resize(kept);
}

void Sampler::keep_min_p() {
  if (params_.min_p <= 0.0f) return;
  // The best token's weight is exp(0) = 1.
  std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < params_.min_p; });
}

std::uint32_t Sampler::choose(std::span<const float> logits, std::uint64_t position) {
  EDGEDRAFT_CHECK(!logits.empty());
  if (params_.greedy()) return argmax(logits);
  collect(logits);
  // Numbers that overflowed on their way, which the text may bring about: still some token, and
  // nobody's process.
  if (candidates_.empty()) return argmax(logits);
  keep_top_k();
  keep_top_p();
  keep_min_p();
  EDGEDRAFT_CHECK(!candidates_.empty());

  // One order for the inverse law, whatever the filters left behind.
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
  double total = 0.0;
  for (const Candidate& c : candidates_) total += c.weight;
  double left = uniform_at(params_.seed, position) * total;
  for (const Candidate& c : candidates_) {
    left -= c.weight;
    if (left < 0.0) return c.token;
  }
  return candidates_.back().token;
}

}  // namespace edgedraft
