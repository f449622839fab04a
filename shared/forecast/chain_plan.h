#pragma once

#include <cstdint>

// What drafting a chain is worth if each of its tokens is accepted with the same probability
// `alpha`, whatever came before it. The drafter's step takes `c` times as long as a pass of the
// target, and `c_hat` times its operations.
//
// Source    Leviathan, Kalman and Matias, Fast Inference from Transformers via Speculative Decoding
//           (2023), section 3
namespace edgedraft {

struct ChainPlan {
  double alpha;         // in [0, 1]
  std::uint32_t gamma;  // tokens drafted
};

// Tokens of a cycle, the target's own included: (1 - alpha^(gamma + 1)) / (1 - alpha).
double expected_tokens(const ChainPlan& plan);
// The time without drafts over the time with them: a pass takes as long with a chain as without.
double speed_up(const ChainPlan& plan, double c);
// All operations over those without drafts.
double extra_operations(const ChainPlan& plan, double c_hat);

// The alpha at which a cycle of `gamma` brings so many tokens. Requires  1 <= tokens <= gamma + 1
double alpha_of(double tokens, std::uint32_t gamma);
// The gamma, from 0 to `gamma_max`, with the largest speed-up.
std::uint32_t best_gamma(double alpha, double c, std::uint32_t gamma_max);

}  // namespace edgedraft
