#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/model/mapped_file.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// Limit for the JSON header, as in the format's own library.
inline constexpr std::uint64_t kSafetensorsHeaderBytesMax = 100u << 20;

struct SafetensorsTensor {
  std::string type;                  // as in the file: "F32", "BF16", "I32"
  std::vector<std::uint64_t> shape;  // outermost first
  ByteView bytes;

  // Null for other types than those of weights.
  std::optional<DType> weight_type() const;
};

// One safetensors file, memory-mapped. Its tensors tile the data: no gaps, no overlaps.
//
// Source    the format's specification (huggingface/safetensors)
class SafetensorsFile {
 public:
  // Errors    io; bad_file: truncated (says so), damaged or hostile
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  // As above, for bytes in memory, which must outlive the object.
  static Result<SafetensorsFile> parse(ByteView bytes);

  const std::map<std::string, SafetensorsTensor>& tensors() const { return tensors_; }
  const SafetensorsTensor* find(const std::string& name) const;

 private:
  MappedFile mapping_;
  std::map<std::string, SafetensorsTensor> tensors_;
};

// The weights of a Hugging Face directory: model.safetensors, or the shards that
// model.safetensors.index.json lists.
class SafetensorsModel {
 public:
  // Errors    as above, naming the file; io if there are no weights
  static Result<SafetensorsModel> open(const std::filesystem::path& directory);

  // By name, over all shards.
  const std::map<std::string, const SafetensorsTensor*>& tensors() const { return tensors_; }
  const SafetensorsTensor* find(const std::string& name) const;

 private:
  std::vector<SafetensorsFile> shards_;
  std::map<std::string, const SafetensorsTensor*> tensors_;
};

}  // namespace edgedraft
