#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shared/types/sampling_params.h"

namespace edgedraft {

// Draws tokens. A draw is a pure function of (logits, params, position), shared by plain decoding,
// verification and offline drafting; that makes speculation lossless.
//
// The draw takes the token with the largest log probability plus Gumbel noise of (seed, position,
// token). A drafter with the same seed draws the same token with probability at least (1 - TV) / (1
// + TV). TV is the total variation between both distributions (Daliri et al., 2024). Cost: one hash
// per token; an exponential and a logarithm only for tokens that a bound does not rule out.
//
// Filters apply in the order temperature, top-k, top-p, min-p, each on the renormalised rest, as in
// vLLM and Hugging Face. The best token always survives.
class Sampler {
 public:
  explicit Sampler(const SamplingParams& params) : params_(params) {}

  const SamplingParams& params() const { return params_; }

  // Shapes    logits [vocabulary], finite or -inf
  // Cost      O(vocabulary); sorts little more than the tokens kept by top-p
  std::uint32_t choose(std::span<const float> logits, std::uint64_t position);
  // The distribution that it draws from, at any position: the probabilities of all tokens.
  std::vector<double> distribution(std::span<const float> logits);

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

// Index of the largest element, ties to the lowest.
std::uint32_t argmax(std::span<const float> logits);

}  // namespace edgedraft
