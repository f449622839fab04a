#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/protocol/message.h"

namespace edgedraft {

// How a row of activations is quantised: values that share a scale, in order.
class ActivationLayout {
 public:
  ActivationLayout() = default;
  // Requires  groups that decode() of a Welcome lets through
  explicit ActivationLayout(std::vector<std::uint32_t> scale_groups);

  std::span<const std::uint32_t> scale_groups() const { return groups_; }
  std::uint32_t cols() const { return cols_; }
  // One byte a value and two a scale.
  std::uint32_t row_bytes() const { return cols_ + 2 * static_cast<std::uint32_t>(groups_.size()); }

 private:
  std::vector<std::uint32_t> groups_;
  std::uint32_t cols_ = 0;
};

// How many rows a verdict on a draft brings if a path of so many nodes was accepted.
constexpr std::uint32_t verdict_rows(std::size_t path_count, bool newest_row) {
  return newest_row ? 1 : static_cast<std::uint32_t>(path_count) + 1;
}

// q = round(x / s), s = max |x| of the group / 127 as float16; all int8 values of all rows, then
// all scales. Deterministic. A group that is no number anywhere is sent as zeros.
//
// Source    symmetric 8-bit quantisation; the paper leaves its scheme open
// Shapes    rows [count * layout.cols()]; result [count * layout.row_bytes()]
Bytes quantize_rows(const ActivationLayout& layout, std::span<const float> rows);

// x = q s.
// Shapes    result [count * layout.cols()]
// Errors    bad_message  not count rows, or a scale that is negative or not finite
Result<std::vector<float>> dequantize_rows(const ActivationLayout& layout, std::uint32_t count,
                                           ByteView packed);

// A chunk for Activations: quantised rows, compressed by `codec` if that makes them smaller and the
// ratio is one that the other side accepts, as they are otherwise.
wire::Activations compress_activations(std::uint32_t round, std::uint32_t first,
                                       std::uint32_t count, ByteView packed, wire::Codec codec);

// The quantised rows of a chunk.
// Errors    bad_message  a stream that is damaged, fails its checksum, is truncated, trailed by
//                        other bytes, inflates to another size than count rows have, or by more
//                        than kInflateRatioMax
Result<Bytes> decompress_activations(const ActivationLayout& layout,
                                     const wire::Activations& chunk);

// Rows that make a good chunk: large enough to compress, small enough not to hold up a verdict, and
// no more than a verdict has.
std::uint32_t chunk_rows(const ActivationLayout& layout);

// The largest payload of a message with `count` rows of that layout.
std::uint64_t activation_payload_bytes_max(const ActivationLayout& layout, std::uint32_t count);

}  // namespace edgedraft
