#pragma once

#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/moa/moa_tensors.h"
#include "shared/model/decoder_tensors.h"

namespace edgedraft::bench {

// Random weights, small enough that activations stay of order one.
class RandomTensors {
 public:
  // Requires  cols is a multiple of the type's block
  TensorView matrix(DType type, std::uint32_t rows, std::uint32_t cols);
  // Ones.
  TensorView norm(std::uint32_t cols);
  LayerTensors layer(DType type, const LayerShape& shape);

 private:
  std::vector<Bytes> bytes_;
  std::uint64_t state_ = 1;
};

// A decoder of a known model's shape with random weights, built in a second.
class GeneratedModel {
 public:
  // Matrices have `type`, norms are f32.
  //
  // Errors    usage: lists the shapes, or the type does not fit the shape
  static Result<GeneratedModel> make(const std::string& shape, DType type);

  const DecoderConfig& config() const { return config_; }
  const DecoderTensors& tensors() const { return tensors_; }

 private:
  GeneratedModel() = default;

  DecoderConfig config_;
  DecoderTensors tensors_;
  RandomTensors random_;
};

// A Mixture-of-Attentions drafter, with one TLI layer, for a target of a known shape.
class GeneratedDrafter {
 public:
  // Errors    as above
  static Result<GeneratedDrafter> make(const std::string& shape, DType type);

  const MoaConfig& config() const { return config_; }
  const MoaTensors& tensors() const { return tensors_; }

 private:
  GeneratedDrafter() = default;

  MoaConfig config_;
  MoaTensors tensors_;
  RandomTensors random_;
};

}  // namespace edgedraft::bench
