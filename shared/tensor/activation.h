#pragma once

#include <cstdint>

namespace edgedraft {

// Function of a gate before it multiplies (GateOp in shared/runtime/backend.h).
enum class Activation : std::uint8_t {
  silu,      // g / (1 + e^-g)
  gelu,      // the tanh form
  clamped,   // gpt-oss: limits both factors
  sigmoid,   // 1 / (1 + e^-g)
  identity,  // g
};

}  // namespace edgedraft
