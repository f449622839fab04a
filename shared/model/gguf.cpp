#include "shared/model/gguf.h"

#include <concepts>
#include <string>
#include <utility>

#include "shared/model/gguf_parser.h"

namespace edgedraft {
namespace {

Error missing(std::string_view key) {
  return {Errc::bad_file, "the file lacks the key " + std::string(key)};
}

Error wrong_type(std::string_view key, std::string_view wanted) {
  return {Errc::bad_file, "the key " + std::string(key) + " is no " + std::string(wanted)};
}

// The integer at `from`, where it fits a signed 64-bit number.
std::optional<std::int64_t> integer_at(GgufType type, const std::byte* from) {
  switch (type) {
    case GgufType::u8:
      return load_le<std::uint8_t>(from);
    case GgufType::i8:
      return load_le<std::int8_t>(from);
    case GgufType::u16:
      return load_le<std::uint16_t>(from);
    case GgufType::i16:
      return load_le<std::int16_t>(from);
    case GgufType::u32:
      return load_le<std::uint32_t>(from);
    case GgufType::i32:
      return load_le<std::int32_t>(from);
    case GgufType::i64:
      return load_le<std::int64_t>(from);
    case GgufType::u64: {
      const auto value = load_le<std::uint64_t>(from);
      if (std::in_range<std::int64_t>(value)) return static_cast<std::int64_t>(value);
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

std::optional<float> float_at(GgufType type, const std::byte* from) {
  if (type == GgufType::f32) return load_le<float>(from);
  if (type == GgufType::f64) return static_cast<float>(load_le<double>(from));
  return std::nullopt;
}

std::string_view string_at(const std::byte* from) {
  return {reinterpret_cast<const char*>(from + sizeof(std::uint64_t)),
          load_le<std::uint64_t>(from)};
}

// An array of numbers, each through `read`; nothing where one does not fit.
template <class T, class Read>
std::optional<std::vector<T>> numbers(const GgufValue& value, Read read) {
  if (value.type != GgufType::array || value.element_type == GgufType::string) return std::nullopt;
  const std::uint32_t step = gguf_scalar_bytes(value.element_type);
  std::vector<T> out;
  out.reserve(value.count);
  for (std::uint64_t i = 0; i < value.count; ++i) {
    const auto number = read(value.element_type, value.bytes.data() + i * step);
    if (!number) return std::nullopt;
    if constexpr (std::integral<T>) {
      if (!std::in_range<T>(*number)) return std::nullopt;
    }
    out.push_back(static_cast<T>(*number));
  }
  return out;
}

}  // namespace

std::uint64_t GgufTensor::rows() const {
  std::uint64_t product = 1;
  for (std::size_t i = 1; i < dims.size(); ++i) product *= dims[i];
  return product;
}

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  auto mapping = MappedFile::open(path);
  if (!mapping) return mapping.error();
  auto file = parse(mapping->bytes());
  if (!file) return Error{file.error().code, path.string() + ": " + file.error().message};
  file->mapping_ = std::move(*mapping);
  return file;
}

Result<GgufFile> GgufFile::parse(ByteView bytes) {
  return GgufParser(bytes).parse();
}

const GgufValue* GgufFile::find_value(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

Result<std::uint32_t> GgufFile::get_u32(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  const auto number = integer_at(value->type, value->bytes.data());
  if (!number || !std::in_range<std::uint32_t>(*number)) return wrong_type(key, "32-bit count");
  return static_cast<std::uint32_t>(*number);
}

Result<float> GgufFile::get_f32(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  const auto number = float_at(value->type, value->bytes.data());
  if (!number) return wrong_type(key, "floating-point number");
  return *number;
}

Result<bool> GgufFile::get_bool(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  if (value->type != GgufType::boolean) return wrong_type(key, "boolean");
  return load_le<std::uint8_t>(value->bytes.data()) != 0;
}

Result<std::string_view> GgufFile::get_string(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  if (value->type != GgufType::string) return wrong_type(key, "string");
  return string_at(value->bytes.data());
}

Result<std::vector<std::string_view>> GgufFile::get_strings(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  if (value->type != GgufType::array || value->element_type != GgufType::string) {
    return wrong_type(key, "array of strings");
  }
  std::vector<std::string_view> out;
  out.reserve(value->count);
  const std::byte* at = value->bytes.data();
  for (std::uint64_t i = 0; i < value->count; ++i) {
    out.push_back(string_at(at));
    at += sizeof(std::uint64_t) + out.back().size();
  }
  return out;
}

Result<std::vector<float>> GgufFile::get_f32s(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  auto out = numbers<float>(*value, float_at);
  if (!out) return wrong_type(key, "array of floating-point numbers");
  return std::move(*out);
}

Result<std::vector<std::int32_t>> GgufFile::get_i32s(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  auto out = numbers<std::int32_t>(*value, integer_at);
  if (!out) return wrong_type(key, "array of 32-bit integers");
  return std::move(*out);
}

Result<std::uint32_t> GgufFile::get_u32_or(std::string_view key, std::uint32_t fallback) const {
  if (find_value(key) == nullptr) return fallback;
  return get_u32(key);
}

Result<float> GgufFile::get_f32_or(std::string_view key, float fallback) const {
  if (find_value(key) == nullptr) return fallback;
  return get_f32(key);
}

Result<bool> GgufFile::get_bool_or(std::string_view key, bool fallback) const {
  if (find_value(key) == nullptr) return fallback;
  return get_bool(key);
}

Result<std::string_view> GgufFile::get_string_or(std::string_view key,
                                                 std::string_view fallback) const {
  if (find_value(key) == nullptr) return fallback;
  return get_string(key);
}

}  // namespace edgedraft
