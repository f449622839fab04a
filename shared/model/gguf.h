#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/model/mapped_file.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// Above any real model; larger counts are rejected before allocating.
inline constexpr std::uint64_t kGgufMetadataCountMax = 1u << 16;
inline constexpr std::uint64_t kGgufTensorCountMax = 1u << 16;
inline constexpr std::uint32_t kGgufDimsMax = 4;
// The only tensor of integers that models have: the target's token of each row of a drafter's head.
// Source    llama.cpp's files of EAGLE-3 drafters
inline constexpr std::string_view kGgufTokenTable = "d2t";

// Types of metadata values, with their numbers in the file.
enum class GgufType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

// One checked metadata value, in the file's memory.
struct GgufValue {
  GgufType type;          // array for arrays
  GgufType element_type;  // element type of an array; else equal to `type`
  std::uint64_t count;    // elements of an array; else 1
  ByteView bytes;         // elements as stored in the file
};

// Metadata by key.
//
// Errors    of every getter: bad_file naming the key if missing or of another type
class GgufKeys {
 public:
  GgufKeys() = default;
  explicit GgufKeys(std::map<std::string_view, GgufValue> values) : metadata_(std::move(values)) {}

  const std::map<std::string_view, GgufValue>& metadata() const { return metadata_; }
  const GgufValue* find_value(std::string_view key) const;

  // Integers of any width whose value fits.
  Result<std::uint32_t> get_u32(std::string_view key) const;
  Result<float> get_f32(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::vector<std::string_view>> get_strings(std::string_view key) const;
  Result<std::vector<float>> get_f32s(std::string_view key) const;
  Result<std::vector<std::int32_t>> get_i32s(std::string_view key) const;
  Result<std::vector<bool>> get_bools(std::string_view key) const;

  // `fallback` if the key is missing; an error if it has another type.
  Result<std::uint32_t> get_u32_or(std::string_view key, std::uint32_t fallback) const;
  Result<float> get_f32_or(std::string_view key, float fallback) const;
  Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  Result<std::string_view> get_string_or(std::string_view key, std::string_view fallback) const;

  // general.architecture
  Result<std::string_view> architecture() const { return get_string("general.architecture"); }

 protected:
  std::map<std::string_view, GgufValue> metadata_;
};

// One tensor; its bytes are within the file.
struct GgufTensor {
  std::string_view name;
  DType type = DType::f32;
  std::vector<std::uint64_t> dims;  // innermost first, as in the file; 1 to 4, none zero
  ByteView bytes;

  std::uint64_t cols() const { return dims[0]; }
  std::uint64_t rows() const;  // product of the other dimensions
};

// A GGUF model of version 2 or 3, little-endian, memory-mapped: one file, or several that each hold
// part of the tensors (gguf_parts.h). Names, values and bytes are views into the mappings and end
// with them; moving the object keeps them valid.
//
// Source    the GGUF specification of the ggml project
// Threads   const methods may run concurrently
class GgufFile : public GgufKeys {
 public:
  // `path` may be any part of a model; the others are in the same folder. Keys about parts
  // (split.*) are dropped.
  // Errors    io          the operating system refused, or a part is missing
  //           bad_file    not GGUF, truncated (says so), damaged or hostile; parts that do not
  //                       match or were renamed
  //           unsupported another version, byte order or tensor type, named with its tensor
  static Result<GgufFile> open(const std::filesystem::path& path);

  // As above, for one file's bytes in memory, which must outlive the object.
  static Result<GgufFile> parse(ByteView bytes);

  // Total size of its files; 0 for bytes in memory.
  std::uint64_t mapped_bytes() const;

  // In the file's order.
  std::span<const GgufTensor> tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;
  // Elements of the tensor of I64 with the name kGgufTokenTable, which tensors() does not list:
  // eight bytes each, little-endian. Empty if there is none.
  ByteView token_table() const { return token_table_; }

 private:
  friend class GgufParser;

  static Result<GgufFile> open_one(const std::filesystem::path& path);
  static Result<GgufFile> open_parts(const std::filesystem::path& path, std::uint32_t count);
  Result<void> add_part(GgufFile part, std::uint32_t index, std::uint32_t count);

  std::vector<MappedFile> mappings_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string_view, std::size_t> tensor_index_;
  ByteView token_table_;
};

}  // namespace edgedraft
