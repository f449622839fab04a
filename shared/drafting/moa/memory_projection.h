#pragma once

#include <cstdint>

#include "shared/drafting/moa/moa_tensors.h"
#include "shared/runtime/weight_store.h"

namespace edgedraft {

// Projects LSA's mean m to the cross-attention's keys and values, with that layer's biases:
// n = RMSNorm(W m + b), K = Wk n (not yet rotated), V = Wv n.
//
// Runs on the device or the server, depending on the cut point.
//
// Source    Mixture of Attentions, section 3.2; the norm is the one that CA's queries use
class MemoryProjection {
 public:
  MemoryProjection(Backend& backend, const MoaConfig& config, const MoaTensors& tensors,
                   std::uint32_t rows_max);

  // Shapes    m [rows, 2 * target kv_cols]; keys, values [rows, CA kv_cols]
  void project(const Matrix& m, const Matrix& keys, const Matrix& values);

 private:
  Backend& backend_;
  float epsilon_;
  WeightStore store_;
  Weight ekv2e_;
  Weight ekv2e_bias_;
  Weight norm_;
  Weight wk_;
  Weight wv_;
  Weight bk_;  // absent if the cross-attention has none
  Weight bv_;
  OwnedMatrix c_;
};

}  // namespace edgedraft
