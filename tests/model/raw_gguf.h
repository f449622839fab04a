#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/bytes.h"

// Writes GGUF byte by byte without checks, for files that a reader must refuse.
namespace edgedraft::test {

class ByteWriter {
 public:
  template <class T>
  ByteWriter& number(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    store_le(&bytes_[at], value);
    return *this;
  }
  ByteWriter& raw(ByteView bytes) {
    for (const std::byte b : bytes) bytes_.push_back(b);
    return *this;
  }
  ByteWriter& raw(std::string_view text) { return raw(as_byte_view(text)); }
  // Writes a 64-bit length, then the text.
  ByteWriter& string(std::string_view text) {
    number(std::uint64_t{text.size()});
    return raw(text);
  }
  ByteWriter& pad_to(std::size_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_.push_back(std::byte{0});
    return *this;
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

struct RawTensor {
  std::string name;
  std::vector<std::uint64_t> dims;
  std::uint32_t type = 0;  // ggml's type number
  std::uint64_t offset = 0;
};

struct RawGguf {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> tensor_count;  // replaces the actual count
  std::optional<std::uint64_t> value_count;
  std::vector<std::pair<std::string, Bytes>> values;  // each a type and a payload
  std::vector<RawTensor> tensors;
  Bytes data;

  void add_u32(const std::string& key, std::uint32_t value) {
    values.emplace_back(key, ByteWriter().number(std::uint32_t{4}).number(value).bytes());
  }
  void add_f32(const std::string& key, float value) {
    values.emplace_back(key, ByteWriter().number(std::uint32_t{6}).number(value).bytes());
  }
  void add_bool(const std::string& key, bool value) {
    values.emplace_back(key,
                        ByteWriter().number(std::uint32_t{7}).number(std::uint8_t{value}).bytes());
  }
  void add_string(const std::string& key, std::string_view value) {
    values.emplace_back(key, ByteWriter().number(std::uint32_t{8}).string(value).bytes());
  }
  void add_strings(const std::string& key, const std::vector<std::string>& list) {
    ByteWriter out;
    out.number(std::uint32_t{9}).number(std::uint32_t{8}).number(std::uint64_t{list.size()});
    for (const std::string& text : list) out.string(text);
    values.emplace_back(key, out.bytes());
  }
  template <class T>
  void add_numbers(const std::string& key, std::uint32_t element_type, const std::vector<T>& list) {
    ByteWriter out;
    out.number(std::uint32_t{9}).number(element_type).number(std::uint64_t{list.size()});
    for (const T value : list) out.number(value);
    values.emplace_back(key, out.bytes());
  }

  Bytes bytes() const {
    ByteWriter out;
    out.raw(magic).number(version);
    out.number(tensor_count.value_or(tensors.size())).number(value_count.value_or(values.size()));
    for (const auto& [key, value] : values) out.string(key).raw(value);
    for (const RawTensor& tensor : tensors) {
      out.string(tensor.name).number(static_cast<std::uint32_t>(tensor.dims.size()));
      for (const std::uint64_t dim : tensor.dims) out.number(dim);
      out.number(tensor.type).number(tensor.offset);
    }
    out.pad_to(32).raw(data);
    return out.bytes();
  }
};

}  // namespace edgedraft::test
