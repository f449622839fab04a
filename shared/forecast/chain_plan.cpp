#include "shared/forecast/chain_plan.h"

namespace edgedraft {

double expected_tokens(const ChainPlan& plan) {
  // As a sum, which takes alpha = 1 as well.
  double tokens = 0.0;
  double accepted = 1.0;  // the probability that so many are
  for (std::uint32_t i = 0; i <= plan.gamma; ++i, accepted *= plan.alpha) tokens += accepted;
  return tokens;
}

double speed_up(const ChainPlan& plan, double c) {
  return expected_tokens(plan) / (plan.gamma * c + 1.0);
}

double extra_operations(const ChainPlan& plan, double c_hat) {
  return (plan.gamma * c_hat + plan.gamma + 1.0) / expected_tokens(plan);
}

double alpha_of(double tokens, std::uint32_t gamma) {
  constexpr int kHalvings = 60;
  double low = 0.0;
  double high = 1.0;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (expected_tokens({.alpha = middle, .gamma = gamma}) < tokens ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::uint32_t best_gamma(double alpha, double c, std::uint32_t gamma_max) {
  std::uint32_t best = 0;
  for (std::uint32_t gamma = 1; gamma <= gamma_max; ++gamma) {
    const ChainPlan plan{.alpha = alpha, .gamma = gamma};
    if (speed_up(plan, c) > speed_up({.alpha = alpha, .gamma = best}, c)) best = gamma;
  }
  return best;
}

}  // namespace edgedraft
