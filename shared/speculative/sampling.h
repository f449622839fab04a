#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace edgedraft {

// How the next token is drawn from the target's logits.
struct SamplingParams {
  float temperature = 0.0f;  // 0: the most likely token; else > 0
  std::uint32_t top_k = 0;   // keep the k likeliest; 0 keeps all
  float top_p = 1.0f;        // keep the likeliest whose probabilities reach p; 1 keeps all
  float min_p = 0.0f;        // keep those with at least min_p times the best's probability
  std::uint64_t seed = 0;

  bool greedy() const { return temperature == 0.0f; }
  bool operator==(const SamplingParams&) const = default;
};

// Draws tokens. The draw at a position is a pure function of (logits, params, position): it decides
// plain decoding, verification and offline drafting alike, which is what makes speculation
// lossless.
//
// The filters apply in the order temperature, top-k, top-p, min-p, each on the renormalised rest of
// the one before, as vLLM and Hugging Face do. The best token always survives.
class Sampler {
 public:
  explicit Sampler(const SamplingParams& params) : params_(params) {}

  const SamplingParams& params() const { return params_; }

  // Shapes    logits [vocabulary], finite or -inf
  // Cost      O(vocabulary); sorts only what top-k or top-p need
  std::uint32_t choose(std::span<const float> logits, std::uint64_t position);

 private:
  struct Candidate {
    std::uint32_t token;
    double weight;  // exp((logit - best) / temperature)
  };

  void collect(std::span<const float> logits);
  void keep_top_k();
  void keep_top_p();
  void keep_min_p();

  SamplingParams params_;
  std::vector<Candidate> candidates_;
};

// The index of the largest element, ties to the lowest.
std::uint32_t argmax(std::span<const float> logits);

}  // namespace edgedraft
