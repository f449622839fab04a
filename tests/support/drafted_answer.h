#pragma once

#include <optional>
#include <span>
#include <vector>

#include "client/generation/generation.h"
#include "server/program/model_host.h"

namespace edgedraft::testing {
using namespace client;
using namespace server;

struct AnswerRequest {
  std::span<const std::uint32_t> prompt;
  Tap* tap = nullptr;          // the drafter's, may be null
  Drafter* drafter = nullptr;  // null: plain decoding
  std::optional<TreeShape> tree = {};
  std::uint32_t tokens_max = 160;
  SamplingParams sampling = {};
  DType kv_type = DType::f32;  // type of the target's KV cache
};

struct DraftedAnswer {
  std::vector<std::uint32_t> tokens;
  GenerationStats stats;
};

// One answer of a target and a drafter in one process. Activations pass through the link's codec.
Result<DraftedAnswer> drafted_answer(ModelHost& host, const AnswerRequest& request);

}  // namespace edgedraft::testing
