#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/program/model_host.h"
#include "shared/drafting/drafter.h"
#include "shared/drafting/tap.h"

namespace edgedraft::bench {

struct DrawnAnswerRequest {
  std::span<const std::uint32_t> prompt;
  Tap* tap;  // of the drafter, may be null
  Drafter& drafter;
  TreeShape tree;
  std::uint32_t tokens_max;
  SamplingParams sampling;  // not greedy
  DType kv_type;
};

struct DrawnAnswer {
  std::vector<std::uint32_t> tokens;
  std::uint32_t cycles = 0;
  std::uint32_t cycle_tokens = 0;
  std::uint32_t rows = 0;  // of the cycles' passes
};

// One answer of a drafter whose proposals are drawn from its own law, by the literature's rule
// (candidate_rule.h). Which nodes a tree has is settled by their ranks before any is drawn.
// Activations are not rounded.
DrawnAnswer drawn_answer(ModelHost& host, const DrawnAnswerRequest& request);

}  // namespace edgedraft::bench
