#include "shared/model/gguf_parser.h"

#include <algorithm>
#include <numeric>

#include "shared/model/gguf_tensor_types.h"

namespace edgedraft {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint32_t kVersion = 3;
constexpr std::uint32_t kVersionMin = 2;  // equal to 3 except that it is never big-endian
constexpr std::uint32_t kAlignmentDefault = 32;
constexpr std::uint32_t kAlignmentMax = 1u << 20;
constexpr std::uint64_t kKeyBytesMax = 65535;
constexpr std::uint32_t kInt64Type = 27;  // ggml's number

std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kShown)) out += c >= ' ' && c < 127 ? c : '?';
  return out + (text.size() > kShown ? "...'" : "'");
}

Result<DType> tensor_type(std::uint32_t number, std::string_view name) {
  const GgufTensorType* known = find_gguf_tensor_type(number);
  if (known != nullptr && known->type) return *known->type;
  // ggml adds types, so an unknown number does not mean damage.
  const std::string as =
      known != nullptr ? std::string(known->name) : "type " + std::to_string(number);
  return Error{Errc::unsupported, "tensor " + quoted(name) + " is stored as " + as +
                                      ", which this version does not support; use a file in " +
                                      readable_gguf_types()};
}

}  // namespace

std::uint32_t gguf_scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::string:
    case GgufType::array:
      return 0;
  }
  return 0;
}

Error GgufParser::truncated(std::string_view what) const {
  return bad_file(
      "the file ends within " + std::string(what) + ", after " + std::to_string(bytes_.size()) +
      " bytes: it is truncated, probably by an interrupted download; download it again");
}

template <class T>
Result<T> GgufParser::read_number(std::string_view what) {
  if (bytes_.size() - at_ < sizeof(T)) return truncated(what);
  const T value = load_le<T>(&bytes_[at_]);
  at_ += sizeof(T);
  return value;
}

Result<std::string_view> GgufParser::read_string(std::string_view what) {
  const auto count = read_number<std::uint64_t>(what);
  if (!count) return count.error();
  if (*count > bytes_.size() - at_) return truncated(what);
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + at_), *count);
  at_ += *count;
  return text;
}

Result<void> GgufParser::skip_elements(const GgufValue& value, std::string_view key) {
  if (value.element_type != GgufType::string) {
    const auto count = checked_mul(value.count, gguf_scalar_bytes(value.element_type));
    if (!count || *count > bytes_.size() - at_) return truncated("the value of " + quoted(key));
    at_ += *count;
    return {};
  }
  for (std::uint64_t i = 0; i < value.count; ++i) {
    const auto text = read_string("the value of a key");
    if (!text) return truncated("the value of " + quoted(key));
  }
  return {};
}

Result<GgufValue> GgufParser::read_value(std::string_view key) {
  const auto type = read_number<std::uint32_t>("the metadata");
  if (!type) return type.error();
  GgufValue value{GgufType{*type}, GgufType{*type}, 1, {}};
  if (value.type == GgufType::array) {
    const auto element = read_number<std::uint32_t>("the metadata");
    if (!element) return element.error();
    const auto count = read_number<std::uint64_t>("the metadata");
    if (!count) return count.error();
    value.element_type = GgufType{*element};
    value.count = *count;
  }
  if (value.element_type == GgufType::array) {
    return Error{Errc::unsupported, "the value of " + quoted(key) + " is an array of arrays"};
  }
  if (value.element_type != GgufType::string && gguf_scalar_bytes(value.element_type) == 0) {
    return bad_file("the value of " + quoted(key) + " has the unknown type " +
                    std::to_string(static_cast<std::uint32_t>(value.element_type)));
  }
  const std::size_t start = at_;
  if (auto skipped = skip_elements(value, key); !skipped) return skipped.error();
  value.bytes = bytes_.subspan(start, at_ - start);
  return value;
}

Result<void> GgufParser::parse_preamble() {
  const std::string_view start(reinterpret_cast<const char*>(bytes_.data()),
                               std::min(bytes_.size(), kMagic.size()));
  if (start != kMagic.substr(0, start.size())) {
    return bad_file("this is not a GGUF file (it begins with " + quoted(start) +
                    "); make one from a Hugging Face directory with `edgedraft convert`");
  }
  if (bytes_.size() < kMagic.size()) return truncated("the header");
  at_ = kMagic.size();
  const auto version = read_number<std::uint32_t>("the header");
  if (!version) return version.error();
  if (*version == __builtin_bswap32(kVersion)) {
    return Error{Errc::unsupported, "this GGUF file is big-endian; use a little-endian one"};
  }
  if (*version < kVersionMin || *version > kVersion) {
    return Error{Errc::unsupported,
                 "this is GGUF version " + std::to_string(*version) +
                     "; only versions 2 and 3 are supported; convert the model again"};
  }
  const auto tensors = read_number<std::uint64_t>("the header");
  if (!tensors) return tensors.error();
  const auto values = read_number<std::uint64_t>("the header");
  if (!values) return values.error();
  if (*tensors > kGgufTensorCountMax || *values > kGgufMetadataCountMax) {
    return bad_file("the header declares " + std::to_string(*tensors) + " tensors and " +
                    std::to_string(*values) +
                    " keys, more than any model has: the file is damaged");
  }
  tensor_count_ = *tensors;
  metadata_count_ = *values;
  return {};
}

Result<void> GgufParser::parse_value() {
  const auto key = read_string("the metadata");
  if (!key) return key.error();
  if (key->empty() || key->size() > kKeyBytesMax) {
    return bad_file("a metadata key has " + std::to_string(key->size()) + " bytes");
  }
  const auto value = read_value(*key);
  if (!value) return value.error();
  if (!file_.metadata_.emplace(*key, *value).second) {
    return bad_file("the key " + quoted(*key) + " occurs twice");
  }
  return {};
}

Result<void> GgufParser::parse_tensor() {
  const auto name = read_string("the tensor table");
  if (!name) return name.error();
  const auto dim_count = read_number<std::uint32_t>("the tensor table");
  if (!dim_count) return dim_count.error();
  if (*dim_count == 0 || *dim_count > kGgufDimsMax) {
    return bad_file("tensor " + quoted(*name) + " has " + std::to_string(*dim_count) +
                    " dimensions");
  }
  GgufTensor tensor{.name = *name, .type = DType::f32, .dims = {}, .bytes = {}};
  std::optional<std::uint64_t> rows = 1;
  for (std::uint32_t i = 0; i < *dim_count; ++i) {
    const auto dim = read_number<std::uint64_t>("the tensor table");
    if (!dim) return dim.error();
    if (*dim == 0) return bad_file("tensor " + quoted(*name) + " has a dimension of zero");
    tensor.dims.push_back(*dim);
    if (i > 0 && rows) rows = checked_mul(*rows, *dim);
  }
  const auto type = read_number<std::uint32_t>("the tensor table");
  if (!type) return type.error();
  const auto offset = read_number<std::uint64_t>("the tensor table");
  if (!offset) return offset.error();
  if (*type == kInt64Type && *name == kGgufTokenTable) return add_token_table(tensor.dims, *offset);
  const auto known = tensor_type(*type, *name);
  if (!known) return known.error();
  tensor.type = *known;

  const auto per_row = row_bytes(tensor.type, tensor.cols());
  const auto byte_count = per_row && rows ? checked_mul(*per_row, *rows) : std::nullopt;
  if (!byte_count) return bad_file("tensor " + quoted(*name) + " has an invalid shape");
  const bool is_taken = has_token_table_ && *name == kGgufTokenTable;
  if (is_taken || !file_.tensor_index_.emplace(*name, file_.tensors_.size()).second) {
    return bad_file("the tensor " + quoted(*name) + " occurs twice");
  }
  file_.tensors_.push_back(std::move(tensor));
  placed_.push_back({*name, *offset, *byte_count});
  return {};
}

Result<void> GgufParser::add_token_table(std::span<const std::uint64_t> dims,
                                         std::uint64_t offset) {
  const auto byte_count = checked_mul(dims[0], sizeof(std::int64_t));
  if (dims.size() != 1 || !byte_count) {
    return bad_file("tensor " + quoted(kGgufTokenTable) + " has an invalid shape");
  }
  if (has_token_table_ || file_.tensor_index_.contains(kGgufTokenTable)) {
    return bad_file("the tensor " + quoted(kGgufTokenTable) + " occurs twice");
  }
  has_token_table_ = true;
  placed_.push_back({kGgufTokenTable, offset, *byte_count});
  return {};
}

Result<void> GgufParser::place_tensors() {
  const auto alignment = file_.get_u32_or("general.alignment", kAlignmentDefault);
  if (!alignment) return alignment.error();
  if (*alignment < 8 || *alignment > kAlignmentMax || (*alignment & (*alignment - 1)) != 0) {
    return bad_file("general.alignment is " + std::to_string(*alignment) +
                    "; it must be a power of two of at least 8");
  }
  const std::uint64_t data_start = (at_ + *alignment - 1) / *alignment * *alignment;

  std::vector<std::size_t> order(placed_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [this](std::size_t a, std::size_t b) { return placed_[a].offset < placed_[b].offset; });
  std::uint64_t previous_end = 0;
  for (const std::size_t i : order) {
    const auto [name, offset, byte_count] = placed_[i];
    if (offset % *alignment != 0) {
      return bad_file("tensor " + quoted(name) + " is not aligned to " +
                      std::to_string(*alignment) + " bytes");
    }
    if (offset < previous_end) {
      return bad_file("tensor " + quoted(name) + " overlaps another one");
    }
    const auto end = checked_add(offset, byte_count);
    const auto end_in_file = end ? checked_add(data_start, *end) : std::nullopt;
    if (!end_in_file) return bad_file("tensor " + quoted(name) + " has an invalid offset");
    if (*end_in_file > bytes_.size()) return truncated("tensor " + quoted(name));
    const auto found = file_.tensor_index_.find(name);
    ByteView& bytes = found == file_.tensor_index_.end() ? file_.token_table_
                                                         : file_.tensors_[found->second].bytes;
    bytes = bytes_.subspan(data_start + offset, byte_count);
    previous_end = *end;
  }
  return {};
}

Result<GgufFile> GgufParser::parse() {
  if (auto done = parse_preamble(); !done) return done.error();
  for (std::uint64_t i = 0; i < metadata_count_; ++i) {
    if (auto done = parse_value(); !done) return done.error();
  }
  for (std::uint64_t i = 0; i < tensor_count_; ++i) {
    if (auto done = parse_tensor(); !done) return done.error();
  }
  if (auto done = place_tensors(); !done) return done.error();
  return std::move(file_);
}

}  // namespace edgedraft
