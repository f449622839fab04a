#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/drafting/medusa/medusa_tensors.h"
#include "shared/runtime/scratch.h"
#include "shared/runtime/weight_store.h"

namespace edgedraft {

// MEDUSA's heads: each guesses from one feature f of the target. Head k, counted from 1, guesses
// the token k + 1 positions after f: head_k(f) = W2 (f + silu(W1_k f + b_k)), with W2 the target's
// head or its own.
//
// Source    MEDUSA, section 3.1
class MedusaHeads {
 public:
  // Requires  the bytes of `tensors` outlive the object
  MedusaHeads(Backend& backend, const MedusaConfig& config, const MedusaTensors& tensors);

  const MedusaConfig& config() const { return config_; }
  Backend& backend() { return backend_; }

  // Logits of heads first, first + 1, ..., counted from 0, one row each; valid until the next call.
  // Shapes    feature [config().dim]; result [count, config().head_rows()]
  Matrix logits(std::span<const float> feature, std::uint32_t first, std::uint32_t count);

 private:
  struct Head {
    Weight weight;
    Weight bias;
    Weight output;  // absent if shared
  };

  Backend& backend_;
  MedusaConfig config_;
  WeightStore store_;
  std::vector<Head> heads_;
  Weight output_;
  OwnedMatrix feature_;
  OwnedMatrix inner_;
  OwnedMatrix twos_;
  OwnedMatrix pairs_;
  OwnedMatrix hidden_;
  OwnedMatrix logits_;
};

}  // namespace edgedraft
