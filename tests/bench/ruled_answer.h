#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/program/model_host.h"
#include "shared/drafting/drafter.h"
#include "shared/drafting/tap.h"
#include "tests/bench/rules/typical_acceptance.h"

namespace edgedraft::bench {
using namespace server;

struct RuledAnswerRequest {
  std::span<const std::uint32_t> prompt;
  Tap* tap;  // the drafter's tap; may be null
  Drafter& drafter;
  TreeShape tree;
  std::uint32_t tokens_max;
  SamplingParams sampling;  // not greedy
  DType kv_type;
  // Typical acceptance. If empty, proposals are drawn from the drafter's distribution, and ranks
  // fix the shape of the tree before any draw (candidate_rule.h).
  std::optional<TypicalThreshold> typical = std::nullopt;
};

struct MeasuredAnswer {
  std::vector<std::uint32_t> tokens;
  std::uint32_t cycles = 0;
  std::uint32_t cycle_tokens = 0;
  std::uint32_t rows = 0;  // rows of all cycles' passes
  // Summed over the cycles' tokens: the total variation between the distribution by which each was
  // accepted, given the text before it, and the target's.
  double total_variation = 0.0;
};

// One answer with a verification rule other than the product's. Activations are not rounded.
MeasuredAnswer ruled_answer(ModelHost& host, const RuledAnswerRequest& request);

}  // namespace edgedraft::bench
