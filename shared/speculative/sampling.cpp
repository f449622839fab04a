#include "shared/speculative/sampling.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "shared/base/check.h"
#include "shared/speculative/draw_noise.h"

namespace edgedraft {
namespace {

// Likelier first; equal weights by lowest token, so that filters are deterministic.
constexpr auto kLikelier = [](const auto& a, const auto& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
};

// Logarithm of the least possible exponential noise, rounded down.
constexpr double kLeastLogNoise = -37.0;

// An upper bound of exp(x), at most twice its value, without computing it. Requires  -1000 < x <= 0
double exp_above(double x) {
  const auto power = static_cast<std::int64_t>(std::floor(x * std::numbers::log2e)) + 1;
  return std::bit_cast<double>(static_cast<std::uint64_t>(power + 1023) << 52);
}

// Token with the least noise for its weight exp((logit - best) / temperature).
std::uint32_t race(std::span<const float> logits, std::uint32_t likeliest, double temperature,
                   const DrawNoise& noise) {
  const double best = logits[likeliest];
  std::uint32_t winner = likeliest;
  double least = noise.exponential(likeliest);
  double floor = kLeastLogNoise - std::log(least);
  for (std::uint32_t token = 0; token < logits.size(); ++token) {
    const double x = (logits[token] - best) / temperature;
    // Such small weights cannot win under any noise; neither can NaN.
    if (!(x > floor)) continue;
    const double complement = noise.complement(token);
    if (complement >= least * exp_above(x)) continue;
    const double key = noise.exponential(token) / std::exp(x);
    if (key >= least) continue;
    least = key;
    winner = token;
    floor = kLeastLogNoise - std::log(least);
  }
  return winner;
}

// As above, for candidates with weights.
template <class Candidates>
std::uint32_t race(const Candidates& candidates, const DrawNoise& noise) {
  std::uint32_t winner = candidates.front().token;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& c : candidates) {
    const double key = noise.exponential(c.token) / c.weight;
    if (key > least || (key == least && c.token > winner)) continue;
    least = key;
    winner = c.token;
  }
  return winner;
}

template <class Candidates>
double total_weight(const Candidates& candidates) {
  double total = 0.0;
  for (const auto& c : candidates) total += c.weight;
  return total;
}

}  // namespace

std::uint32_t argmax(std::span<const float> logits) {
  std::uint32_t best = 0;
  for (std::uint32_t token = 1; token < logits.size(); ++token) {
    const bool is_first = std::isnan(logits[best]) && !std::isnan(logits[token]);
    if (logits[token] > logits[best] || is_first) best = token;
  }
  return best;
}

void Sampler::collect(std::span<const float> logits) {
  const double best = logits[argmax(logits)];
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
  // The mass is a part of the sum in order of likelihood. Sums in other orders differ by less than
  // this share, so most cuts are known before everything is sorted.
  const double error =
      4.0 * std::numeric_limits<double>::epsilon() * static_cast<double>(candidates_.size());
  const double near = params_.top_p * total_weight(candidates_);
  auto kept = bring_forward(near * (1.0 - error), near * (1.0 + error));
  if (!kept) {
    std::sort(candidates_.begin(), candidates_.end(), kLikelier);
    const double mass = params_.top_p * total_weight(candidates_);
    kept = bring_forward(mass, mass);
  }
  candidates_.resize(*kept);
}

// Sorts the likeliest candidates to the front until their weights reach a mass between `least` and
// `most`. Returns their number, at least 1; nullopt if it depends on the exact mass.
std::optional<std::size_t> Sampler::bring_forward(double least, double most) {
  constexpr std::size_t kFirstPart = 128;
  constexpr std::size_t kGrowth = 8;
  double sum = 0.0;
  std::size_t sorted = 0;
  for (std::size_t kept = 0; kept < candidates_.size(); ++kept) {
    if (kept > 0 && sum >= most) return kept;
    if (kept > 0 && sum >= least) return std::nullopt;
    if (kept == sorted) {
      const auto from = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted);
      sorted = std::min(std::max(kFirstPart, sorted * kGrowth), candidates_.size());
      const auto to = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted);
      std::nth_element(from, to, candidates_.end(), kLikelier);
      std::sort(from, to, kLikelier);
    }
    sum += candidates_[kept].weight;
  }
  return candidates_.size();
}

void Sampler::keep_min_p() {
  if (params_.min_p <= 0.0f) return;
  // The best token has weight exp(0) = 1.
  std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < params_.min_p; });
}

void Sampler::filter(std::span<const float> logits) {
  collect(logits);
  if (candidates_.empty()) return;
  keep_top_k();
  keep_top_p();
  keep_min_p();
  EDGEDRAFT_CHECK(!candidates_.empty());
}

std::uint32_t Sampler::choose(std::span<const float> logits, std::uint64_t position) {
  EDGEDRAFT_CHECK(!logits.empty());
  // A text can make logits overflow. There is no distribution then, but a token is still chosen and
  // the process continues.
  const std::uint32_t likeliest = argmax(logits);
  if (params_.greedy() || !std::isfinite(logits[likeliest])) return likeliest;
  if (params_.keeps_all()) {
    return race(logits, likeliest, params_.temperature, DrawNoise(params_.seed, position));
  }
  filter(logits);
  if (candidates_.empty()) return likeliest;
  return race(candidates_, DrawNoise(params_.seed, position));
}

std::vector<double> Sampler::distribution(std::span<const float> logits) {
  EDGEDRAFT_CHECK(!logits.empty());
  std::vector<double> distribution(logits.size(), 0.0);
  const std::uint32_t likeliest = argmax(logits);
  candidates_.clear();
  if (!params_.greedy() && std::isfinite(logits[likeliest])) filter(logits);
  if (candidates_.empty()) {
    distribution[likeliest] = 1.0;
    return distribution;
  }
  const double total = total_weight(candidates_);
  for (const Candidate& c : candidates_) distribution[c.token] = c.weight / total;
  return distribution;
}

}  // namespace edgedraft
