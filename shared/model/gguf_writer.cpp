#include "shared/model/gguf_writer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/sha256.h"
#include "shared/model/atomic_file.h"
#include "shared/model/fingerprint.h"
#include "shared/model/gguf_tensor_types.h"

namespace edgedraft {
namespace {

constexpr std::uint64_t kAlignment =
    32;  // the format's default, so general.alignment is not written

void append_bytes(Bytes& to, ByteView bytes) {
  const std::size_t at = to.size();
  to.resize(at + bytes.size());
  std::copy(bytes.begin(), bytes.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
}

template <class T>
void append_number(Bytes& to, T value) {
  append_bytes(to, std::as_bytes(std::span(&value, 1)));
}

void append_string(Bytes& to, std::string_view text) {
  append_number(to, std::uint64_t{text.size()});
  append_bytes(to, as_byte_view(text));
}

void append_array_head(Bytes& to, GgufType element_type, std::uint64_t count) {
  append_number(to, static_cast<std::uint32_t>(element_type));
  append_number(to, count);
}

std::uint64_t aligned(std::uint64_t count) {
  return (count + kAlignment - 1) / kAlignment * kAlignment;
}

struct Header {
  Bytes bytes;
  std::uint64_t fingerprint_offset = 0;  // offset of its 64 digits
};

Header make_header(const GgufMetadata& metadata, std::span<const GgufTensorInfo> tensors) {
  Header header;
  Bytes& out = header.bytes;
  append_bytes(out, as_byte_view("GGUF"));
  append_number(out, std::uint32_t{3});
  append_number(out, std::uint64_t{tensors.size()});
  append_number(out, std::uint64_t{metadata.values().size()});
  for (const auto& [key, value] : metadata.values()) {
    append_string(out, key);
    append_number(out, static_cast<std::uint32_t>(value.type));
    if (key == kFingerprintKey) header.fingerprint_offset = out.size() + sizeof(std::uint64_t);
    append_bytes(out, value.bytes);
  }
  std::uint64_t offset = 0;
  for (const GgufTensorInfo& tensor : tensors) {
    append_string(out, tensor.name);
    append_number(out, static_cast<std::uint32_t>(tensor.dims.size()));
    for (const std::uint64_t dim : tensor.dims) append_number(out, dim);
    append_number(out, gguf_type_number(tensor.type));
    append_number(out, offset);
    offset += aligned(tensor.byte_count());
  }
  out.resize(aligned(out.size()));
  return header;
}

}  // namespace

void GgufMetadata::set_u32(const std::string& key, std::uint32_t value) {
  Bytes bytes;
  append_number(bytes, value);
  values_.insert_or_assign(key, Value{GgufType::u32, std::move(bytes)});
}

void GgufMetadata::set_f32(const std::string& key, float value) {
  Bytes bytes;
  append_number(bytes, value);
  values_.insert_or_assign(key, Value{GgufType::f32, std::move(bytes)});
}

void GgufMetadata::set_bool(const std::string& key, bool value) {
  values_.insert_or_assign(key, Value{GgufType::boolean, Bytes{std::byte{value}}});
}

void GgufMetadata::set_string(const std::string& key, std::string_view value) {
  Bytes bytes;
  append_string(bytes, value);
  values_.insert_or_assign(key, Value{GgufType::string, std::move(bytes)});
}

void GgufMetadata::set_strings(const std::string& key, std::span<const std::string> values) {
  Bytes bytes;
  append_array_head(bytes, GgufType::string, values.size());
  for (const std::string& value : values) append_string(bytes, value);
  values_.insert_or_assign(key, Value{GgufType::array, std::move(bytes)});
}

void GgufMetadata::set_f32s(const std::string& key, std::span<const float> values) {
  Bytes bytes;
  append_array_head(bytes, GgufType::f32, values.size());
  for (const float value : values) append_number(bytes, value);
  values_.insert_or_assign(key, Value{GgufType::array, std::move(bytes)});
}

void GgufMetadata::set_i32s(const std::string& key, std::span<const std::int32_t> values) {
  Bytes bytes;
  append_array_head(bytes, GgufType::i32, values.size());
  for (const std::int32_t value : values) append_number(bytes, value);
  values_.insert_or_assign(key, Value{GgufType::array, std::move(bytes)});
}

void GgufMetadata::set_bools(const std::string& key, const std::vector<bool>& values) {
  Bytes bytes;
  append_array_head(bytes, GgufType::boolean, values.size());
  for (const bool value : values)
    bytes.push_back(std::byte{value ? std::uint8_t{1} : std::uint8_t{0}});
  values_.insert_or_assign(key, Value{GgufType::array, std::move(bytes)});
}

void GgufMetadata::set(const std::string& key, const GgufValue& value) {
  Bytes bytes;
  if (value.type == GgufType::array) append_array_head(bytes, value.element_type, value.count);
  append_bytes(bytes, value.bytes);
  values_.insert_or_assign(key, Value{value.type, std::move(bytes)});
}

GgufKeys GgufMetadata::keys() const {
  std::map<std::string_view, GgufValue> views;
  for (const auto& [key, value] : values_) {
    GgufValue view{
        .type = value.type, .element_type = value.type, .count = 1, .bytes = value.bytes};
    if (value.type == GgufType::array) {  // as append_array_head() wrote it
      view.element_type = static_cast<GgufType>(load_le<std::uint32_t>(value.bytes.data()));
      view.count = load_le<std::uint64_t>(value.bytes.data() + sizeof(std::uint32_t));
      view.bytes = view.bytes.subspan(sizeof(std::uint32_t) + sizeof(std::uint64_t));
    }
    views.emplace(key, view);
  }
  return GgufKeys(std::move(views));
}

std::uint64_t GgufTensorInfo::byte_count() const {
  std::uint64_t rows = 1;
  for (std::size_t i = 1; i < dims.size(); ++i) rows *= dims[i];
  const auto per_row = row_bytes(type, dims.at(0));
  EDGEDRAFT_CHECK(per_row.has_value());
  return *per_row * rows;
}

struct GgufWriter::State {
  AtomicFile file;
  std::vector<GgufTensorInfo> tensors;
  std::uint64_t fingerprint_offset = 0;
  FingerprintBuilder fingerprint = {};
  std::size_t current = 0;          // index of the tensor being written
  std::uint64_t written_bytes = 0;  // bytes of it written
  std::optional<Sha256> content = {};
};

GgufWriter::GgufWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
GgufWriter::~GgufWriter() = default;
GgufWriter::GgufWriter(GgufWriter&&) noexcept = default;
GgufWriter& GgufWriter::operator=(GgufWriter&&) noexcept = default;

Result<GgufWriter> GgufWriter::create(const std::filesystem::path& path,
                                      const GgufMetadata& metadata,
                                      std::vector<GgufTensorInfo> tensors) {
  auto file = AtomicFile::create(path);
  if (!file) return file.error();
  GgufMetadata full = metadata;
  full.erase("general.alignment");
  full.set_string(std::string(kFingerprintKey), std::string(64, '0'));
  full.set_string(std::string(kLayoutKey), to_hex(layout_fingerprint(tensors)));
  const Header header = make_header(full, tensors);
  if (auto written = file->append(header.bytes); !written) return written.error();

  std::unique_ptr<State> state(new State{.file = std::move(*file),
                                         .tensors = std::move(tensors),
                                         .fingerprint_offset = header.fingerprint_offset});
  for (const auto& [key, value] : full.values()) {
    // The reader hashes only an array's elements; skip their type and count here.
    const std::size_t head = value.type == GgufType::array ? 12 : 0;
    state->fingerprint.add_value(key, ByteView(value.bytes).subspan(head));
  }
  return GgufWriter(std::move(state));
}

Result<void> GgufWriter::write(ByteView bytes) {
  State& s = *state_;
  EDGEDRAFT_CHECK(s.current < s.tensors.size());
  const GgufTensorInfo& tensor = s.tensors[s.current];
  const std::uint64_t total = tensor.byte_count();
  EDGEDRAFT_CHECK(bytes.size() <= total - s.written_bytes);
  if (!s.content) s.content.emplace();
  s.content->update(bytes);
  if (auto written = s.file.append(bytes); !written) return written.error();
  s.written_bytes += bytes.size();
  if (s.written_bytes < total) return {};

  s.fingerprint.add_tensor(tensor.name, tensor.type, tensor.dims, s.content->finish());
  s.content.reset();
  s.written_bytes = 0;
  ++s.current;
  const Bytes padding(aligned(total) - total);
  return s.file.append(padding);
}

Result<void> GgufWriter::finish() {
  State& s = *state_;
  EDGEDRAFT_CHECK(s.current == s.tensors.size());
  const std::string digits = to_hex(s.fingerprint.finish());
  if (auto done = s.file.patch(s.fingerprint_offset, as_byte_view(digits)); !done) {
    return done.error();
  }
  return s.file.commit();
}

}  // namespace edgedraft
