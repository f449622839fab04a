#include "shared/protocol/activation_codec.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "shared/base/check.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {
namespace {

constexpr float kLevels = 127.0f;
constexpr float kHalfMax = 65504.0f;
// Deflating a chunk this large takes a few milliseconds, sending it a few tens on 20 Mbit/s.
constexpr std::uint32_t kChunkBytes = 64u << 10;
// int8 activations shrink by a tenth or so; harder levels cost more time than they save.
constexpr int kDeflateLevel = 1;

Error bad_chunk(std::string what) {
  return {Errc::bad_message, "bad activations: " + std::move(what)};
}

// The group's scale, such that its largest finite magnitude becomes 127.
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
    return bad_chunk("not as many bytes as its rows take");
  }
  std::vector<float> rows(std::size_t{count} * layout.cols());
  const std::byte* value = packed.data();
  const std::byte* scale = packed.data() + rows.size();
  float* to = rows.data();
  for (std::uint32_t row = 0; row < count; ++row) {
    for (const std::uint32_t group_count : layout.scale_groups()) {
      const float s = half_to_float(load_le<std::uint16_t>(scale));
      if (!std::isfinite(s) || std::signbit(s)) return bad_chunk("a scale is no positive number");
      scale += sizeof(std::uint16_t);
      for (std::uint32_t i = 0; i < group_count; ++i) {
        *to++ = s * static_cast<float>(load_le<std::int8_t>(value++));
      }
    }
  }
  return rows;
}

wire::Activations compress_activations(std::uint32_t round, std::uint32_t first,
                                       std::uint32_t count, ByteView packed) {
  wire::Activations chunk{.round = round, .first = first, .count = count, .data = {}};
  uLongf bytes = compressBound(static_cast<uLong>(packed.size()));
  Bytes deflated(bytes);
  const int status = compress2(reinterpret_cast<Bytef*>(deflated.data()), &bytes,
                               reinterpret_cast<const Bytef*>(packed.data()),
                               static_cast<uLong>(packed.size()), kDeflateLevel);
  EDGEDRAFT_CHECK(status == Z_OK);
  if (bytes < packed.size() && packed.size() <= bytes * kInflateRatioMax) {
    deflated.resize(bytes);
    chunk.codec = wire::Codec::deflate;
    chunk.data = std::move(deflated);
  } else {
    chunk.data.assign(packed.begin(), packed.end());
  }
  return chunk;
}

Result<Bytes> decompress_activations(const ActivationLayout& layout,
                                     const wire::Activations& chunk) {
  const std::uint64_t bytes = std::uint64_t{chunk.count} * layout.row_bytes();
  if (chunk.codec == wire::Codec::none) {
    if (chunk.data.size() != bytes) return bad_chunk("not as many bytes as its rows take");
    return chunk.data;
  }
  // Before the allocation: what a chunk may become is bounded by what was sent.
  if (bytes > chunk.data.size() * std::uint64_t{kInflateRatioMax}) {
    return bad_chunk("it would inflate to more than " + std::to_string(kInflateRatioMax) +
                     " times its size");
  }
  Bytes packed(bytes);
  uLongf inflated = static_cast<uLongf>(bytes);
  uLong consumed = static_cast<uLong>(chunk.data.size());
  const int status = uncompress2(reinterpret_cast<Bytef*>(packed.data()), &inflated,
                                 reinterpret_cast<const Bytef*>(chunk.data.data()), &consumed);
  if (status == Z_BUF_ERROR)
    return bad_chunk("the stream is cut short, or holds more than its rows");
  if (status != Z_OK) return bad_chunk("the stream is damaged");
  if (inflated != bytes) return bad_chunk("the stream holds less than its rows");
  if (consumed != chunk.data.size()) return bad_chunk("something follows the stream");
  return packed;
}

std::uint32_t chunk_rows(const ActivationLayout& layout) {
  if (layout.cols() == 0) return 1;
  return std::max<std::uint32_t>(1, kChunkBytes / layout.row_bytes());
}

std::uint64_t activation_payload_bytes_max(const ActivationLayout& layout, std::uint32_t count) {
  return std::uint64_t{count} * layout.row_bytes() + kMessageOverheadBytesMax;
}

}  // namespace edgedraft
