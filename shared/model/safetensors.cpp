#include "shared/model/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "shared/base/json_shape.h"
#include "shared/model/json_file.h"

namespace edgedraft {
namespace {

constexpr std::size_t kDimsMax = 8;

struct ElementType {
  std::string_view name;
  std::uint32_t bytes;
};
constexpr ElementType kElementTypes[] = {
    {"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
    {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},
    {"U64", 8},     {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1},
};

Error truncated(std::uint64_t there, std::uint64_t wanted) {
  return bad_file("the file has " + std::to_string(there) + " bytes, but its header requires " +
                  std::to_string(wanted) +
                  ": it is truncated, probably by an interrupted download; download it again");
}

struct Range {
  std::uint64_t begin;
  std::uint64_t end;
};

std::optional<std::uint64_t> count_of(const nlohmann::json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<std::uint64_t>();
}

// Fills type and shape; bytes are set after the whole table is checked.
Result<Range> parse_entry(const std::string& name, const nlohmann::json& entry,
                          SafetensorsTensor& tensor) {
  const Error damaged = bad_file("the entry of tensor " + name + " is damaged");
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2 ||
      entry["shape"].size() > kDimsMax) {
    return damaged;
  }
  tensor.type = entry["dtype"].get<std::string>();
  const auto* known = std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                                   [&](const ElementType& t) { return t.name == tensor.type; });
  if (known == std::end(kElementTypes)) {
    return Error{Errc::unsupported, "tensor " + name + " has the unknown type " + tensor.type};
  }
  std::optional<std::uint64_t> byte_count = known->bytes;
  for (const nlohmann::json& dim : entry["shape"]) {
    const auto count = count_of(dim);
    if (!count) return damaged;
    tensor.shape.push_back(*count);
    if (byte_count) byte_count = checked_mul(*byte_count, *count);
  }
  const auto begin = count_of(entry["data_offsets"][0]);
  const auto end = count_of(entry["data_offsets"][1]);
  if (!begin || !end || !byte_count || *begin > *end || *end - *begin != *byte_count) {
    return damaged;
  }
  return Range{*begin, *end};
}

// Tensors in data order must be contiguous from the first byte to the last.
Result<void> check_tiling(std::vector<Range> ranges, std::uint64_t data_bytes) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t at = 0;
  for (const Range& range : ranges) {
    if (range.begin != at) return bad_file("the tensors overlap or leave gaps");
    at = range.end;
  }
  if (at > data_bytes) return truncated(data_bytes, at);
  if (at < data_bytes) return bad_file("the file has bytes after its last tensor");
  return {};
}

}  // namespace

std::optional<DType> SafetensorsTensor::weight_type() const {
  if (type == "F32") return DType::f32;
  if (type == "F16") return DType::f16;
  if (type == "BF16") return DType::bf16;
  return std::nullopt;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  auto mapping = MappedFile::open(path);
  if (!mapping) return mapping.error();
  auto file = parse(mapping->bytes());
  if (!file) return Error{file.error().code, path.string() + ": " + file.error().message};
  file->mapping_ = std::move(*mapping);
  return file;
}

Result<SafetensorsFile> SafetensorsFile::parse(ByteView bytes) {
  constexpr std::size_t kLengthBytes = 8;
  if (bytes.size() < kLengthBytes) return truncated(bytes.size(), kLengthBytes);
  const auto header_bytes = load_le<std::uint64_t>(bytes.data());
  if (header_bytes > kSafetensorsHeaderBytesMax) {
    return bad_file("this is not a safetensors file: its header would have " +
                    std::to_string(header_bytes) + " bytes");
  }
  if (header_bytes > bytes.size() - kLengthBytes) {
    return truncated(bytes.size(), kLengthBytes + header_bytes);
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data() + kLengthBytes),
                              header_bytes);
  // A bracket takes one byte here and eighty in memory.
  if (!has_readable_depth(text)) {
    return bad_file("this is not a safetensors file: its header nests deeper than " +
                    std::to_string(kJsonDepthMax) + " levels");
  }
  const auto header = nlohmann::json::parse(text, nullptr, false);
  if (!header.is_object())
    return bad_file("this is not a safetensors file: its header is not a JSON object");

  const ByteView data = bytes.subspan(kLengthBytes + header_bytes);
  SafetensorsFile file;
  std::vector<Range> ranges;
  std::vector<std::pair<SafetensorsTensor*, Range>> placed;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    SafetensorsTensor& tensor = file.tensors_[name];
    const auto range = parse_entry(name, entry, tensor);
    if (!range) return range.error();
    ranges.push_back(*range);
    placed.emplace_back(&tensor, *range);
  }
  if (auto checked = check_tiling(std::move(ranges), data.size()); !checked) {
    return checked.error();
  }
  for (const auto& [tensor, range] : placed) {
    tensor->bytes = data.subspan(range.begin, range.end - range.begin);
  }
  return file;
}

const SafetensorsTensor* SafetensorsFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

namespace {

// Files named by the index; they must be in the directory itself.
Result<std::set<std::string>> shard_names(const std::filesystem::path& index) {
  const auto json = read_json_object(index);
  if (!json) return json.error();
  const auto map = json->find("weight_map");
  if (map == json->end() || !map->is_object())
    return bad_file(index.string() + " has no weight_map");
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != name.npos || name == "..") {
      return bad_file(index.string() + " names an invalid file for " + tensor);
    }
    names.insert(name);
  }
  return names;
}

}  // namespace

Result<SafetensorsModel> SafetensorsModel::open(const std::filesystem::path& directory) {
  std::set<std::string> names = {"model.safetensors"};
  if (!std::filesystem::exists(directory / "model.safetensors")) {
    const auto index = directory / "model.safetensors.index.json";
    if (!std::filesystem::exists(index)) {
      return Error{Errc::io, directory.string() +
                                 " has neither model.safetensors nor an index of shards; other "
                                 "formats of weights are not supported"};
    }
    auto listed = shard_names(index);
    if (!listed) return listed.error();
    names = std::move(*listed);
  }
  SafetensorsModel model;
  for (const std::string& name : names) {
    auto shard = SafetensorsFile::open(directory / name);
    if (!shard) return shard.error();
    model.shards_.push_back(std::move(*shard));
  }
  for (const SafetensorsFile& shard : model.shards_) {
    for (const auto& [name, tensor] : shard.tensors()) {
      if (!model.tensors_.emplace(name, &tensor).second) {
        return bad_file("tensor " + name + " is in two shards");
      }
    }
  }
  return model;
}

const SafetensorsTensor* SafetensorsModel::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

}  // namespace edgedraft
