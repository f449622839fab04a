#include "shared/model/gguf.h"

#include <concepts>
#include <string>
#include <utility>

#include "shared/model/gguf_parser.h"
#include "shared/model/gguf_parts.h"

namespace edgedraft {
namespace {

// Part number from 0, number of parts, and total number of tensors.
constexpr std::string_view kPartKey = "split.no";
constexpr std::string_view kPartCountKey = "split.count";
constexpr std::string_view kPartsTensorsKey = "split.tensors.count";

Error missing(std::string_view key) {
  return {Errc::bad_file, "the file lacks the key " + std::string(key)};
}

Error wrong_type(std::string_view key, std::string_view wanted) {
  return {Errc::bad_file, "the key " + std::string(key) + " is not " + std::string(wanted)};
}

// Integer at `from`, if it fits int64.
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

// An array of numbers, each converted by `read`; nullopt if one does not fit.
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
  auto file = open_one(path);
  if (!file) return file.error();
  const auto parts = file->get_u32_or(kPartCountKey, 1);
  if (!parts) return in_file(path, parts.error());
  if (*parts > 1) return open_parts(path, *parts);
  return file;
}

Result<GgufFile> GgufFile::open_one(const std::filesystem::path& path) {
  auto mapping = MappedFile::open(path);
  if (!mapping) return mapping.error();
  auto file = parse(mapping->bytes());
  if (!file) return Error{file.error().code, path.string() + ": " + file.error().message};
  file->mappings_.push_back(std::move(*mapping));
  return file;
}

Result<GgufFile> GgufFile::open_parts(const std::filesystem::path& path, std::uint32_t count) {
  const auto named = gguf_part_named(path);
  if (!named || named->count != count) {
    const GgufPart example{.beginning = "NAME", .number = 1, .count = count};
    return Error{Errc::bad_file,
                 path.string() + ": this is one of the " + std::to_string(count) +
                     " files of a model, which are found by their names: name them " +
                     example.path_of(1).string() +
                     " and so on, or merge them (gguf-split --merge)"};
  }
  GgufFile whole;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::filesystem::path of_part = named->path_of(i + 1);
    auto part = open_one(of_part);
    if (!part) {
      Error error = part.error();
      if (error.code == Errc::io) {
        error.message +=
            "; the model has " + std::to_string(count) + " files, which must all be in this folder";
      }
      return error;
    }
    if (auto added = whole.add_part(std::move(*part), i, count); !added) {
      return in_file(of_part, added.error());
    }
  }
  const std::size_t found = whole.tensors_.size() + (whole.token_table_.empty() ? 0 : 1);
  const auto tensors = whole.get_u32_or(kPartsTensorsKey, static_cast<std::uint32_t>(found));
  if (!tensors) return in_file(path, tensors.error());
  if (*tensors != found) {
    return Error{Errc::bad_file, path.string() + ": the model's files have " +
                                     std::to_string(found) + " tensors instead of " +
                                     std::to_string(*tensors) + "; download them again"};
  }
  for (const std::string_view key : {kPartKey, kPartCountKey, kPartsTensorsKey}) {
    whole.metadata_.erase(key);
  }
  return whole;
}

// The first part holds the model's metadata.
Result<void> GgufFile::add_part(GgufFile part, std::uint32_t index, std::uint32_t count) {
  const auto its_index = part.get_u32(kPartKey);
  if (!its_index) return its_index.error();
  const auto its_count = part.get_u32(kPartCountKey);
  if (!its_count) return its_count.error();
  if (*its_index != index || *its_count != count) {
    return Error{Errc::bad_file, "by its name this is file " + std::to_string(index + 1) + " of " +
                                     std::to_string(count) + ", by its metadata " +
                                     std::to_string(std::uint64_t{*its_index} + 1) + " of " +
                                     std::to_string(*its_count)};
  }
  if (index == 0) metadata_ = std::move(part.metadata_);
  for (GgufTensor& tensor : part.tensors_) {
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
      return Error{Errc::bad_file, "the tensor " + std::string(tensor.name) +
                                       " is also in an earlier file of the model"};
    }
    tensors_.push_back(std::move(tensor));
  }
  if (!part.token_table_.empty()) token_table_ = part.token_table_;
  mappings_.push_back(std::move(part.mappings_.front()));
  return {};
}

Result<GgufFile> GgufFile::parse(ByteView bytes) {
  return GgufParser(bytes).parse();
}

const GgufValue* GgufKeys::find_value(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

std::uint64_t GgufFile::mapped_bytes() const {
  std::uint64_t bytes = 0;
  for (const MappedFile& mapping : mappings_) bytes += mapping.bytes().size();
  return bytes;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

Result<std::uint32_t> GgufKeys::get_u32(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  const auto number = integer_at(value->type, value->bytes.data());
  if (!number || !std::in_range<std::uint32_t>(*number)) return wrong_type(key, "a 32-bit count");
  return static_cast<std::uint32_t>(*number);
}

Result<float> GgufKeys::get_f32(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  const auto number = float_at(value->type, value->bytes.data());
  if (!number) return wrong_type(key, "a floating-point number");
  return *number;
}

Result<bool> GgufKeys::get_bool(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  if (value->type != GgufType::boolean) return wrong_type(key, "a boolean");
  return load_le<std::uint8_t>(value->bytes.data()) != 0;
}

Result<std::string_view> GgufKeys::get_string(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  if (value->type != GgufType::string) return wrong_type(key, "a string");
  return string_at(value->bytes.data());
}

Result<std::vector<std::string_view>> GgufKeys::get_strings(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  if (value->type != GgufType::array || value->element_type != GgufType::string) {
    return wrong_type(key, "an array of strings");
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

Result<std::vector<float>> GgufKeys::get_f32s(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  auto out = numbers<float>(*value, float_at);
  if (!out) return wrong_type(key, "an array of floating-point numbers");
  return std::move(*out);
}

Result<std::vector<std::int32_t>> GgufKeys::get_i32s(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  auto out = numbers<std::int32_t>(*value, integer_at);
  if (!out) return wrong_type(key, "an array of 32-bit integers");
  return std::move(*out);
}

Result<std::vector<bool>> GgufKeys::get_bools(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  if (value->type != GgufType::array || value->element_type != GgufType::boolean) {
    return wrong_type(key, "an array of booleans");
  }
  std::vector<bool> out;
  for (const std::byte flag : value->bytes) out.push_back(flag != std::byte{0});
  return out;
}

Result<std::uint32_t> GgufKeys::get_u32_or(std::string_view key, std::uint32_t fallback) const {
  if (find_value(key) == nullptr) return fallback;
  return get_u32(key);
}

Result<float> GgufKeys::get_f32_or(std::string_view key, float fallback) const {
  if (find_value(key) == nullptr) return fallback;
  return get_f32(key);
}

Result<bool> GgufKeys::get_bool_or(std::string_view key, bool fallback) const {
  if (find_value(key) == nullptr) return fallback;
  return get_bool(key);
}

Result<std::string_view> GgufKeys::get_string_or(std::string_view key,
                                                 std::string_view fallback) const {
  if (find_value(key) == nullptr) return fallback;
  return get_string(key);
}

}  // namespace edgedraft
