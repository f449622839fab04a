#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "shared/model/decoder_tensors.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/layer.h"

namespace edgedraft {

// Uploads a model's tensors to a backend and owns them there.
//
// Requires  the bytes of the tensors (a mapped file) outlive the store: a CPU backend computes in
// them
class WeightStore {
 public:
  explicit WeightStore(Backend& backend) : backend_(backend) {}

  Weight add(const TensorView& tensor);
  LayerWeights add_layer(const LayerTensors& layer);

 private:
  Backend& backend_;
  std::deque<std::vector<float>> decoded_;  // under some of the buffers
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace edgedraft
