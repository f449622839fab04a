#pragma once

#include <cstdint>
#include <memory>

#include "shared/drafting/eagle/eagle_tensors.h"
#include "shared/drafting/eagle3/eagle3_model.h"
#include "shared/drafting/medusa/medusa_tensors.h"
#include "shared/drafting/multistream/multistream_tensors.h"
#include "tests/support/toy_models.h"

// Random drafters that read a target's features.
namespace edgedraft::testing {

struct ToyEagle {
  ToyEagle(const ToyDecoder& target, std::uint64_t seed);
  FeatureModel model() const { return feature_model(config, tensors); }

  std::shared_ptr<TensorPool> pool;
  EagleConfig config;
  EagleTensors tensors;
};

// An MTP block with experts, an output gate, norms of heads and partial rotation.
struct ToyMtp {
  ToyMtp(const ToyDecoder& target, std::uint64_t seed);

  std::shared_ptr<TensorPool> pool;
  FeatureModel model;
};

// An EAGLE-3 drafter of the inputs of layers 1 to 3, of another width than the target.
struct ToyEagle3 {
  ToyEagle3(const DecoderConfig& target, std::uint64_t seed);

  std::shared_ptr<TensorPool> pool;
  Eagle3Model model;
};

enum class HeadOutputs : std::uint8_t { shared, own };

struct ToyMedusa {
  ToyMedusa(const ToyDecoder& target, std::uint64_t seed, HeadOutputs outputs,
            std::uint32_t heads = 4);

  std::shared_ptr<TensorPool> pool;
  MedusaConfig config;
  MedusaTensors tensors;
};

// Streams through the target's last two layers.
struct ToyMultistream {
  ToyMultistream(const ToyDecoder& target, std::uint64_t seed);

  std::shared_ptr<TensorPool> pool;
  MultistreamConfig config;
  MultistreamTensors tensors;
};

}  // namespace edgedraft::testing
