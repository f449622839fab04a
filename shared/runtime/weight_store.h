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
// Requires  the tensors' bytes (a mapped file) outlive the store: a CPU backend reads weights that
//           it does not reorder in place
class WeightStore {
 public:
  explicit WeightStore(Backend& backend) : backend_(backend) {}

  // Adds an embedding table.
  Weight add(const TensorView& tensor);
  // Adds a norm or a bias. Those are read in place as float32, so other types are decoded.
  Weight add_vector(const TensorView& tensor);
  // Adds a matrix for matmul.
  Weight add_matrix(const TensorView& tensor);
  LayerWeights add_layer(const LayerTensors& layer);

 private:
  Weight keep(std::unique_ptr<Buffer> buffer, const TensorView& tensor);
  // The rows of a tensor in groups, one after the other.
  TensorView packed_rows(const TensorView& tensor);

  Backend& backend_;
  std::deque<std::vector<float>> decoded_;  // backing of some buffers
  std::deque<Bytes> packed_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace edgedraft
