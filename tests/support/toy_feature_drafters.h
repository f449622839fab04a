#pragma once

#include <cstdint>
#include <memory>

#include "shared/drafting/eagle/eagle_tensors.h"
#include "shared/drafting/medusa/medusa_tensors.h"
#include "tests/support/toy_models.h"

// Random drafters that read a target's features.
namespace edgedraft::testing {

struct ToyEagle {
  ToyEagle(const ToyDecoder& target, std::uint64_t seed);

  std::shared_ptr<TensorPool> pool;
  EagleConfig config;
  EagleTensors tensors;
};

enum class HeadOutputs : std::uint8_t { shared, own };

struct ToyMedusa {
  ToyMedusa(const ToyDecoder& target, std::uint64_t seed, HeadOutputs outputs,
            std::uint32_t heads = 4);

  std::shared_ptr<TensorPool> pool;
  MedusaConfig config;
  MedusaTensors tensors;
};

}  // namespace edgedraft::testing
