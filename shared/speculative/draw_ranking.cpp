#include "shared/speculative/draw_ranking.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "shared/base/check.h"
#include "shared/speculative/draw_noise.h"

namespace edgedraft {
namespace {

// Drafters underrate likely tokens (docs/records/drafters/sampling.md), so their log probabilities
// are multiplied by this.
constexpr float kSharpness = 1.5f;

// Subtracts the log of their sum from log weights.
void normalise(std::vector<DraftGuess>& guesses) {
  double best = guesses.front().log_prob;
  for (const DraftGuess& guess : guesses) best = std::max(best, double{guess.log_prob});
  double sum = 0.0;
  for (const DraftGuess& guess : guesses) sum += std::exp(guess.log_prob - best);
  const double total = best + std::log(sum);
  for (DraftGuess& guess : guesses) guess.log_prob = static_cast<float>(guess.log_prob - total);
}

// Applies the filters as Sampler does, to the likeliest tokens only.
void cut(const SamplingParams& params, std::vector<DraftGuess>& guesses) {
  if (params.top_k > 0 && params.top_k < guesses.size()) guesses.resize(params.top_k);
  normalise(guesses);
  double sum = 0.0;
  std::size_t kept = 0;
  while (kept < guesses.size() && (kept == 0 || sum < params.top_p)) {
    sum += std::exp(guesses[kept++].log_prob);
  }
  if (params.top_p < 1.0f) guesses.resize(kept);
  if (params.min_p <= 0.0f) return;
  const double least = guesses.front().log_prob + std::log(params.min_p);
  std::erase_if(guesses, [least](const DraftGuess& guess) { return guess.log_prob < least; });
}

}  // namespace

void keep_allowed(const std::vector<bool>& may, std::vector<DraftGuess>& guesses) {
  std::vector<DraftGuess> kept;
  for (std::size_t i = 0; i < guesses.size(); ++i) {
    if (may[i]) kept.push_back(guesses[i]);
  }
  if (!kept.empty()) normalise(kept);
  guesses = std::move(kept);
}

void rank_by_draw(const SamplingParams& params, std::uint64_t position,
                  std::vector<DraftGuess>& guesses) {
  EDGEDRAFT_CHECK(!params.greedy());
  if (guesses.empty()) return;
  for (DraftGuess& guess : guesses) guess.log_prob *= kSharpness / params.temperature;
  cut(params, guesses);
  const DrawNoise noise(params.seed, position);
  for (DraftGuess& guess : guesses) {
    guess.log_prob += static_cast<float>(noise.gumbel(guess.token));
  }
  std::ranges::sort(guesses, [](const DraftGuess& a, const DraftGuess& b) {
    return a.log_prob != b.log_prob ? a.log_prob > b.log_prob : a.token < b.token;
  });
  normalise(guesses);
}

}  // namespace edgedraft
