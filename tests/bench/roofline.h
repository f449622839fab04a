#pragma once

#include <cstdint>
#include <optional>

#include "shared/runtime/decoder.h"
#include "tests/bench/machine_limits.h"

namespace edgedraft::bench {

// What a pass reads and computes in its matrices and in attention.
struct PassCost {
  double bytes = 0;
  double operations_a_row = 0;
  double short_operations_a_row = 0;      // of them, with weights of six bits or fewer
  double cache_bytes = 0;                 // keys and values of the context
  double attention_operations_a_row = 0;  // of float32
  bool is_quantised = false;
  bool is_bf16 = true;  // all of it
};
// Behind `context` tokens whose keys and values are of `kv_type`.
PassCost cost_of(const DecoderConfig& config, const DecoderTensors& tensors, std::uint32_t context,
                 DType kv_type);

// The least time for a pass: that of reading or that of its operations, whichever is longer. The
// latter depends on the instructions.
struct PassLimits {
  double seconds;                      // by the vector instructions that these weights take
  std::optional<double> int8_seconds;  // by those of eight bits, where fewer bits have faster ones
  std::optional<double> tile_seconds;  // by tiles, where they are used
};
PassLimits limits_of(const PassCost& cost, std::uint32_t width, const MachineLimits& machine);

}  // namespace edgedraft::bench
