#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/model/families/source_layout.h"
#include "shared/model/gguf.h"
#include "shared/model/gguf_writer.h"
#include "shared/model/safetensors.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// A tensor to write and the source of its elements.
struct PlannedTensor {
  GgufTensorInfo info;
  DType source_type = DType::f32;
  ByteView source;
  SourceLayout layout = {};
  std::uint32_t experts = 1;           // matrices of equal shape
  std::vector<ByteView> further = {};  // all but the first, if each is a source of its own
  ByteView scales = {};                // of MXFP4's blocks, if the codes are stored alone

  bool is_as_stored() const {
    return info.type == source_type && layout == SourceLayout{} && further.empty() &&
           scales.empty();
  }
};

// Plan of a GGUF file: everything is collected and checked before the first byte is written.
struct ModelPlan {
  GgufMetadata metadata;
  std::vector<PlannedTensor> tensors;
  std::string notice;  // notice for the user, usually empty

  // Backing of the planned tensors' bytes.
  std::vector<SafetensorsModel> checkpoints;
  std::vector<GgufFile> files;
  std::deque<Bytes> made;
};

// Type in which a tensor is stored if `wanted` is requested. Vectors are f32. Rows that are not
// whole large blocks become q8_0; rows that are not whole small blocks become f16.
DType stored_type(DType wanted, std::span<const std::uint64_t> dims);

// output.weight, or the embedding if tied; null without either.
PlannedTensor* find_head(ModelPlan& plan);
// Raises the head (or tied embedding) to at least six bits per element: it decides every token and
// costs little.
void raise_head(ModelPlan& plan);

// Sets general.file_type and related keys, for display in llama.cpp.
void set_file_type(GgufMetadata& metadata, DType type);

// Copies a tensor of a GGUF file bit for bit under a new name.
PlannedTensor copy_of(const GgufTensor& tensor, std::string name);

// Writes the file, with a progress line.
Result<void> write_model(const ModelPlan& plan, const std::filesystem::path& path);

}  // namespace edgedraft
