#pragma once

#include <string_view>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// Bytes of one scalar of `type`; 0 for strings, arrays and invalid types.
std::uint32_t gguf_scalar_bytes(GgufType type);

// Reads the header of a GGUF file. Checks every count, length and offset against the bytes present
// before using it as a size.
class GgufParser {
 public:
  explicit GgufParser(ByteView bytes) : bytes_(bytes) {}

  Result<GgufFile> parse();

 private:
  // Offset of a tensor's bytes until the whole table is known.
  struct Placed {
    std::string_view name;
    std::uint64_t offset;
    std::uint64_t byte_count;
  };

  Result<void> parse_preamble();
  Result<void> parse_value();
  Result<void> parse_tensor();
  Result<void> add_token_table(std::span<const std::uint64_t> dims, std::uint64_t offset);
  Result<void> place_tensors();

  Result<std::string_view> read_string(std::string_view what);
  template <class T>
  Result<T> read_number(std::string_view what);
  Result<GgufValue> read_value(std::string_view key);
  Result<void> skip_elements(const GgufValue& value, std::string_view key);
  Error truncated(std::string_view what) const;

  ByteView bytes_;
  std::size_t at_ = 0;
  std::uint64_t metadata_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::vector<Placed> placed_;
  bool has_token_table_ = false;
  GgufFile file_;
};

}  // namespace edgedraft
