#pragma once

#include <cstdint>
#include <optional>

#include "shared/runtime/decoder.h"
#include "tests/bench/machine_limits.h"

namespace edgedraft::bench {

// Bytes and operations of a pass, in its matrices and in attention.
struct PassCost {
  double bytes = 0;         // read by every pass
  double expert_bytes = 0;  // of all experts
  double expert_share = 0;  // a row's experts of all
  double operations_a_row = 0;
  double short_operations_a_row = 0;      // those with weights of six bits or fewer
  double cache_bytes = 0;                 // keys and values of the context
  double attention_operations_a_row = 0;  // float32
  bool is_quantised = false;
  bool is_bf16 = true;  // true if all weights but a router's are bf16

  // Weights that a pass of `rows` rows reads if each row's experts are drawn independently.
  double weight_bytes(std::uint32_t rows) const;
};
// After `context` tokens with keys and values of `kv_type`.
PassCost cost_of(const DecoderConfig& config, const DecoderTensors& tensors, std::uint32_t context,
                 DType kv_type);

// The minimum time of a pass: that of its reads or of its operations, whichever is longer.
// Operation time depends on the instructions.
struct PassLimits {
  double seconds;                      // with vector instructions for these weights
  std::optional<double> int8_seconds;  // with eight-bit instructions, if these are faster
  std::optional<double> tile_seconds;  // with tiles, if they are used
};
PassLimits limits_of(const PassCost& cost, std::uint32_t width, const MachineLimits& machine);

}  // namespace edgedraft::bench
