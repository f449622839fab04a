#include "shared/protocol/activation_codec.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <numeric>

#include "shared/base/check.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {
namespace {

constexpr float kLevels = 127.0f;
constexpr float kHalfMax = 65504.0f;
// Deflating such a chunk takes a few milliseconds, sending it a few tens of them at 20 Mbit/s.
constexpr std::uint32_t kChunkBytes = 64u << 10;
// int8 activations shrink by about a tenth; higher levels cost more time than they save.
constexpr int kDeflateLevel = 1;

Error bad_chunk(std::string what) {
  return {Errc::bad_message, "bad activations: " + std::move(what)};
}

// Scale that maps the group's largest finite magnitude to 127.
std::uint16_t scale_of(std::span<const float> group) {
  float largest = 0.0f;
  for (const float x : group) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  return float_to_half(std::min(largest / kLevels, kHalfMax));
}

std::int8_t quantize(float x, float inverse_scale) {
  if (std::isnan(x)) return 0;
  return static_cast<std::int8_t>(std::lrint(std::clamp(x * inverse_scale, -kLevels, kLevels)));
}

// Makes zlib write and accept only the gzip container.
constexpr int kGzipWindowBits = MAX_WBITS + 16;

// Checks the result of starting a stream: only memory can be missing.
void check_begun(int status) {
  if (status == Z_MEM_ERROR) throw std::bad_alloc();
  EDGEDRAFT_CHECK(status == Z_OK);
}

void set_buffers(z_stream& stream, ByteView from, Bytes& to) {
  // zlib only reads through next_in.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data()));
  stream.avail_in = static_cast<uInt>(from.size());
  stream.next_out = reinterpret_cast<Bytef*>(to.data());
  stream.avail_out = static_cast<uInt>(to.size());
}

Bytes deflated(ByteView packed) {
  z_stream stream{};
  constexpr int kMemoryLevel = 8;  // zlib's default
  check_begun(deflateInit2(&stream, kDeflateLevel, Z_DEFLATED, kGzipWindowBits, kMemoryLevel,
                           Z_DEFAULT_STRATEGY));
  const std::unique_ptr<z_stream, decltype(&deflateEnd)> end(&stream, &deflateEnd);
  Bytes to(deflateBound(&stream, static_cast<uLong>(packed.size())));
  set_buffers(stream, packed, to);
  const int status = deflate(&stream, Z_FINISH);
  to.resize(stream.total_out);
  EDGEDRAFT_CHECK(status == Z_STREAM_END);
  return to;
}

}  // namespace

ActivationLayout::ActivationLayout(std::vector<std::uint32_t> scale_groups)
    : groups_(std::move(scale_groups)),
      cols_(std::accumulate(groups_.begin(), groups_.end(), std::uint32_t{0})) {
  EDGEDRAFT_CHECK(groups_.size() <= kScaleGroupsMax);
  EDGEDRAFT_CHECK(cols_ <= kRowValuesMax);
}

Bytes quantize_rows(const ActivationLayout& layout, std::span<const float> rows) {
  if (layout.cols() == 0) return {};
  EDGEDRAFT_CHECK(rows.size() % layout.cols() == 0);
  const std::size_t count = rows.size() / layout.cols();
  Bytes packed(count * layout.row_bytes());
  std::byte* value = packed.data();
  std::byte* scale = packed.data() + rows.size();
  std::size_t offset = 0;
  for (std::size_t row = 0; row < count; ++row) {
    for (const std::uint32_t group_count : layout.scale_groups()) {
      const std::span<const float> group = rows.subspan(offset, group_count);
      const std::uint16_t half = scale_of(group);
      const float s = half_to_float(half);
      const float inverse = s > 0.0f ? 1.0f / s : 0.0f;
      for (const float x : group) *value++ = static_cast<std::byte>(quantize(x, inverse));
      store_le(scale, half);
      scale += sizeof half;
      offset += group_count;
    }
  }
  return packed;
}

Result<std::vector<float>> dequantize_rows(const ActivationLayout& layout, std::uint32_t count,
                                           ByteView packed) {
  if (packed.size() != std::uint64_t{count} * layout.row_bytes()) {
    return bad_chunk("wrong number of bytes for its rows");
  }
  std::vector<float> rows(std::size_t{count} * layout.cols());
  const std::byte* value = packed.data();
  const std::byte* scale = packed.data() + rows.size();
  float* to = rows.data();
  for (std::uint32_t row = 0; row < count; ++row) {
    for (const std::uint32_t group_count : layout.scale_groups()) {
      const float s = half_to_float(load_le<std::uint16_t>(scale));
      if (!std::isfinite(s) || std::signbit(s))
        return bad_chunk("a scale is not a positive number");
      scale += sizeof(std::uint16_t);
      for (std::uint32_t i = 0; i < group_count; ++i) {
        *to++ = s * static_cast<float>(load_le<std::int8_t>(value++));
      }
    }
  }
  return rows;
}

wire::Activations compress_activations(std::uint32_t round, std::uint32_t first,
                                       std::uint32_t count, ByteView packed, wire::Codec codec) {
  wire::Activations chunk{.round = round, .first = first, .count = count, .data = {}};
  if (codec != wire::Codec::none) {
    Bytes compressed = deflated(packed);
    if (compressed.size() < packed.size() &&
        packed.size() <= compressed.size() * kInflateRatioMax) {
      chunk.codec = codec;
      chunk.data = std::move(compressed);
      return chunk;
    }
  }
  chunk.data.assign(packed.begin(), packed.end());
  return chunk;
}

Result<Bytes> decompress_activations(const ActivationLayout& layout,
                                     const wire::Activations& chunk) {
  const std::uint64_t bytes = std::uint64_t{chunk.count} * layout.row_bytes();
  if (chunk.codec == wire::Codec::none) {
    if (chunk.data.size() != bytes) return bad_chunk("wrong number of bytes for its rows");
    return chunk.data;
  }
  // Check before allocating: the size is bounded by the bytes received.
  if (bytes > chunk.data.size() * std::uint64_t{kInflateRatioMax}) {
    return bad_chunk("the stream would inflate to more than " + std::to_string(kInflateRatioMax) +
                     " times its size");
  }
  Bytes packed(bytes);
  z_stream stream{};
  check_begun(inflateInit2(&stream, kGzipWindowBits));
  set_buffers(stream, chunk.data, packed);
  const int status = inflate(&stream, Z_FINISH);
  const auto bytes_left = stream.avail_in;
  const auto bytes_missing = stream.avail_out;
  inflateEnd(&stream);
  if (status == Z_BUF_ERROR || status == Z_OK)
    return bad_chunk("the stream is truncated or contains more than its rows");
  if (status != Z_STREAM_END) return bad_chunk("the stream is damaged");
  if (bytes_missing != 0) return bad_chunk("the stream contains less than its rows");
  if (bytes_left != 0) return bad_chunk("data after the end of the stream");
  return packed;
}

std::uint32_t chunk_rows(const ActivationLayout& layout) {
  if (layout.cols() == 0) return 1;
  return std::clamp<std::uint32_t>(kChunkBytes / layout.row_bytes(), 1, kChunkRowsMax);
}

std::uint64_t activation_payload_bytes_max(const ActivationLayout& layout, std::uint32_t count) {
  return std::uint64_t{count} * layout.row_bytes() + kMessageOverheadBytesMax;
}

}  // namespace edgedraft
