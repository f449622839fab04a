#pragma once

#include <cstdint>
#include <string_view>

namespace edgedraft {

// What makes a token of a law and a seed. Both are exact, and functions of (law, seed, position).
enum class Draw : std::uint8_t {
  // Inverts the cumulative law, in the tokens' order, at one number a position. A small change of
  // the law may make it any other token.
  inverse,
  // The token with the largest log probability plus Gumbel noise of (seed, position, token). With
  // the seed and a law like the target's, a drafter finds the same token with a probability of at
  // least (1 - TV) / (1 + TV), TV being their total variation (Daliri and others, 2024).
  gumbel,
};

// How the next token is drawn from the target's logits.
struct SamplingParams {
  float temperature = 0.0f;  // 0: the most likely token; else > 0
  std::uint32_t top_k = 0;   // keep the k likeliest; 0 keeps all
  float top_p = 1.0f;        // keep the likeliest whose probabilities reach p; 1 keeps all
  float min_p = 0.0f;        // keep those with at least min_p times the best's probability
  std::uint64_t seed = 0;
  Draw draw = Draw::gumbel;
  // The device draws its drafts from the drafter's law, which it sends along, and the server
  // accepts them by it (shared/speculative/candidate_rule.h); tokens without drafts are drawn by
  // `draw`. The law of answers is the same, but the answer depends on the drafts.
  bool drawn_drafts = false;

  bool greedy() const { return temperature == 0.0f; }
  bool keeps_all() const { return top_k == 0 && top_p >= 1.0f && min_p <= 0.0f; }
  bool operator==(const SamplingParams&) const = default;
};

// What a user calls it: "gumbel", "inverse" or "drawn".
inline void set_draw(SamplingParams& params, std::string_view name) {
  params.draw = name == "inverse" ? Draw::inverse : Draw::gumbel;
  params.drawn_drafts = name == "drawn";
}
inline std::string_view draw_name(const SamplingParams& params) {
  return params.drawn_drafts ? "drawn" : params.draw == Draw::inverse ? "inverse" : "gumbel";
}

}  // namespace edgedraft
