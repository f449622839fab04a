#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/gguf.h"
#include "shared/runtime/decoder.h"
#include "tests/support/family_files.h"

// Decoders of the tiny models of tests/data/families.
namespace edgedraft::testing {

enum class Weights : std::uint8_t {
  as_stored,
  exact,  // decoded to float32, so that no backend rounds activations
};

// States that caches keep beside keys and values.
enum class Keeps : std::uint8_t {
  nothing,
  features,
  inputs,  // of layers 1 to 3
};

// A model file and a decoder of it.
class FamilyModel {
 public:
  FamilyModel(Backend& backend, const std::string& name, std::uint32_t context, Weights weights,
              Keeps keeps = Keeps::nothing)
      : bytes_(unzipped(kFamilies / (name + ".gguf.gz"))),
        file_(GgufFile::parse(bytes_).value()),
        model_(read_decoder(file_).value()) {
    if (weights == Weights::exact) {
      for (LayerTensors& layer : model_.tensors.layers) decode(layer);
    }
    std::vector<std::uint32_t> states;
    if (keeps == Keeps::features) states.push_back(model_.config.layer_count + 1);
    if (keeps == Keeps::inputs) states = {1, 2, 3};
    decoder_.emplace(backend, model_.config, model_.tensors, context, states);
  }
  Decoder& decoder() { return *decoder_; }
  const DecoderConfig& config() const { return model_.config; }
  const DecoderTensors& tensors() const { return model_.tensors; }

 private:
  void decode(LayerTensors& layer) {
    for_each_part(layer, layer, [&](const TensorView& from, TensorView& to, PartKind) {
      if (!from.present() || is_float(from.type)) return;
      std::vector<float>& numbers = decoded_.emplace_back(std::size_t{from.rows} * from.cols);
      dequantize_row(from.type, from.bytes, numbers);
      to.type = DType::f32;
      to.bytes = std::as_bytes(std::span(numbers));
    });
  }

  Bytes bytes_;
  GgufFile file_;
  DecoderModel model_;
  std::deque<std::vector<float>> decoded_;
  std::optional<Decoder> decoder_;
};

}  // namespace edgedraft::testing
