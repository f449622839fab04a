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
// those that it does not put in an order of its own
class WeightStore {
 public:
  explicit WeightStore(Backend& backend) : backend_(backend) {}

  // An embedding table, a norm or a bias.
  Weight add(const TensorView& tensor);
  // A matrix that matmul takes.
  Weight add_matrix(const TensorView& tensor);
  LayerWeights add_layer(const LayerTensors& layer);

 private:
  Weight keep(std::unique_ptr<Buffer> buffer, const TensorView& tensor);

  Backend& backend_;
  std::deque<std::vector<float>> decoded_;  // under some of the buffers
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace edgedraft
