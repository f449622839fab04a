#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/model/gguf.h"
#include "shared/model/gguf_writer.h"
#include "shared/model/safetensors.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// A tensor to be written and where its numbers come from.
struct PlannedTensor {
  GgufTensorInfo info;
  DType source_type = DType::f32;
  ByteView source;
  // Heads whose rows are put from RopeStyle::halves into pairs order; 0: rows stay where they are.
  std::uint32_t pair_heads = 0;
};

// A GGUF file to be: collected first, so that everything is checked before the first byte is
// written.
struct ModelPlan {
  GgufMetadata metadata;
  std::vector<PlannedTensor> tensors;
  std::string notice;  // what the user should hear of it; mostly nothing

  // What the planned tensors' bytes lie in.
  std::vector<SafetensorsModel> checkpoints;
  std::vector<GgufFile> files;
  std::deque<Bytes> made;
};

// The type in which `wanted` stores a tensor: vectors are f32; rows that are no whole number of
// large blocks q8_0, and of small ones f16.
DType stored_type(DType wanted, std::span<const std::uint64_t> dims);

// output.weight, or the embedding where that is the head; null without either.
PlannedTensor* find_head(ModelPlan& plan);
// Gives the head, or the embedding where that is the head, at least six bits a number: it decides
// every token and costs little.
void raise_head(ModelPlan& plan);

// Sets general.file_type and its like, as llama.cpp shows them.
void set_file_type(GgufMetadata& metadata, DType type);

// Copies the tensor of a GGUF file bit for bit under a name.
PlannedTensor copy_of(const GgufTensor& tensor, std::string name);

// Writes the file, with a progress line.
Result<void> write_model(const ModelPlan& plan, const std::filesystem::path& path);

}  // namespace edgedraft
