#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/protocol/message.h"

namespace edgedraft {

// Quantization of a row of activations: sizes of the groups that share a scale, in order.
class ActivationLayout {
 public:
  ActivationLayout() = default;
  // Requires  groups that decode() of a Welcome accepts
  explicit ActivationLayout(std::vector<std::uint32_t> scale_groups);

  std::span<const std::uint32_t> scale_groups() const { return groups_; }
  std::uint32_t cols() const { return cols_; }
  // One byte per value and two per scale.
  std::uint32_t row_bytes() const { return cols_ + 2 * static_cast<std::uint32_t>(groups_.size()); }

 private:
  std::vector<std::uint32_t> groups_;
  std::uint32_t cols_ = 0;
};

// Rows that a verdict returns for an accepted path of `path_count` nodes.
constexpr std::uint32_t verdict_rows(std::size_t path_count, bool newest_row) {
  return newest_row ? 1 : static_cast<std::uint32_t>(path_count) + 1;
}

// q = round(x / s), s = max
// x
//  of the group / 127 as float16. All int8 values of all rows come first, then all scales.
//  Deterministic. A group without a finite value is sent as zeros.
//
// Source    symmetric 8-bit quantisation; the paper leaves its scheme open
// Shapes    rows [count * layout.cols()]; result [count * layout.row_bytes()]
Bytes quantize_rows(const ActivationLayout& layout, std::span<const float> rows);

// x = q s.
// Shapes    result [count * layout.cols()]
// Errors    bad_message  not `count` rows, or a negative or non-finite scale
Result<std::vector<float>> dequantize_rows(const ActivationLayout& layout, std::uint32_t count,
                                           ByteView packed);

// Chunk for Activations. Compresses the quantised rows with `codec` if that makes them smaller and
// the receiver accepts the ratio; otherwise sends them uncompressed.
wire::Activations compress_activations(std::uint32_t round, std::uint32_t first,
                                       std::uint32_t count, ByteView packed, wire::Codec codec);

// Quantised rows of a chunk.
// Errors    bad_message  a stream that is damaged, fails its checksum, is truncated, has trailing
//                        bytes, does not inflate to `count` rows, or exceeds kInflateRatioMax
Result<Bytes> decompress_activations(const ActivationLayout& layout,
                                     const wire::Activations& chunk);

// Rows per chunk: enough to compress well, few enough not to delay a verdict, and at most as many
// as a verdict has.
std::uint32_t chunk_rows(const ActivationLayout& layout);

// Largest payload of a message with `count` rows of that layout.
std::uint64_t activation_payload_bytes_max(const ActivationLayout& layout, std::uint32_t count);

}  // namespace edgedraft
