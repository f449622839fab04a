#pragma once

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/gguf.h"
#include "shared/runtime/decoder.h"
#include "tests/support/fixtures.h"

// The tiny models of tests/data/families.
namespace edgedraft::testing {

inline const std::filesystem::path kFamilies = test::kFixtures.parent_path() / "families";

inline std::vector<std::string> family_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFamilies)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

inline Bytes unzipped(const std::filesystem::path& path) {
  Bytes bytes;
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path.string());
  std::array<std::byte, 1u << 16> part;
  for (int count = 0; (count = gzread(file, part.data(), part.size())) > 0;) {
    bytes.insert(bytes.end(), part.begin(), part.begin() + count);
  }
  gzclose(file);
  return bytes;
}

enum class Weights : std::uint8_t {
  as_stored,
  exact,  // decoded to float32, so that no backend rounds activations
};

// A model file and a decoder of it.
class FamilyModel {
 public:
  FamilyModel(Backend& backend, const std::string& name, std::uint32_t context, Weights weights)
      : bytes_(unzipped(kFamilies / (name + ".gguf.gz"))),
        file_(GgufFile::parse(bytes_).value()),
        model_(read_decoder(file_).value()) {
    if (weights == Weights::exact) {
      for (LayerTensors& layer : model_.tensors.layers) decode(layer);
    }
    decoder_.emplace(backend, model_.config, model_.tensors, context);
  }
  Decoder& decoder() { return *decoder_; }
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
