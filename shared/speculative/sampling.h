#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shared/base/sampling_params.h"

namespace edgedraft {

// Draws tokens. The draw at a position is a pure function of (logits, params, position): it decides
// plain decoding, verification and offline drafting alike, which is what makes speculation
// lossless.
//
// It takes the token with the largest log probability plus Gumbel noise of (seed, position, token).
// A drafter with the seed and a distribution like the target's finds the same token with a
// probability of at least (1 - TV) / (1 + TV), TV being their total variation (Daliri and others,
// 2024). Cost: a hash per token, an exponential and a logarithm only for tokens that a bound does
// not rule out.
//
// The filters apply in the order temperature, top-k, top-p, min-p, each on the renormalised rest of
// the one before, as vLLM and Hugging Face do. The best token always survives.
class Sampler {
 public:
  explicit Sampler(const SamplingParams& params) : params_(params) {}

  const SamplingParams& params() const { return params_; }

  // Shapes    logits [vocabulary], finite or -inf
  // Cost      O(vocabulary); sorts only what top-p keeps, and a little more
  std::uint32_t choose(std::span<const float> logits, std::uint64_t position);
  // The law that it draws from, at any position: the probabilities of all tokens.
  std::vector<double> law(std::span<const float> logits);

 private:
  struct Candidate {
    std::uint32_t token;
    double weight;  // exp((logit - best) / temperature)
  };

  void filter(std::span<const float> logits);
  void collect(std::span<const float> logits);
  void keep_top_k();
  void keep_top_p();
  std::optional<std::size_t> bring_forward(double least, double most);
  void keep_min_p();

  SamplingParams params_;
  std::vector<Candidate> candidates_;
};

// The index of the largest element, ties to the lowest.
std::uint32_t argmax(std::span<const float> logits);

}  // namespace edgedraft
