#pragma once

#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/decoder_tensors.h"

namespace edgedraft::bench {

// A decoder of a known model's shape with random weights, made in a second.
class GeneratedModel {
 public:
  // Matrices have `type`, norms are f32.
  //
  // Errors    usage, with the shapes that there are, or where the type does not fit the shape
  static Result<GeneratedModel> make(const std::string& shape, DType type);

  const DecoderConfig& config() const { return config_; }
  const DecoderTensors& tensors() const { return tensors_; }

 private:
  GeneratedModel() = default;
  TensorView matrix(DType type, std::uint32_t rows, std::uint32_t cols);
  TensorView norm(std::uint32_t cols);

  DecoderConfig config_;
  DecoderTensors tensors_;
  std::vector<Bytes> bytes_;
  std::uint64_t state_ = 1;
};

}  // namespace edgedraft::bench
