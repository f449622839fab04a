#pragma once

#include <cstdint>

#include "shared/protocol/activation_codec.h"
#include "shared/protocol/frame.h"

// Bytes per cycle beyond the paper's 4 M up and 3 A + A x (values per row) down. Serves to compare
// measured bytes with the formula (docs/protocol.md, "Bytes per cycle").
namespace edgedraft {

// Upper bounds for FlatBuffers' root offset, vtable, lengths and padding, and for the fields that
// the paper leaves out (round, length, times). Complete hints take four bytes less without credit.
inline constexpr std::uint32_t kHintsTableBytesMax = 48;
inline constexpr std::uint32_t kVerdictTableBytesMax = 100;

// The size of complete hints of `node_count` nodes: the paper's bytes, and with all overhead below
// TLS.
inline std::uint64_t draft_formula_bytes(std::uint32_t node_count) {
  return 4ull * node_count;
}
inline std::uint64_t draft_frame_bytes_max(std::uint32_t node_count) {
  return draft_formula_bytes(node_count) + kFrameHeaderBytes + kHintsTableBytesMax;
}

// The size of a verdict on `new_count` new tokens.
inline std::uint64_t verdict_formula_bytes(const ActivationLayout& layout,
                                           std::uint32_t new_count) {
  return std::uint64_t{new_count} * (3 + layout.cols());
}
inline std::uint64_t verdict_frame_bytes_max(const ActivationLayout& layout,
                                             std::uint32_t new_count) {
  const std::uint64_t scale_bytes = 2ull * layout.scale_groups().size() * new_count;
  return verdict_formula_bytes(layout, new_count) + new_count + scale_bytes + kFrameHeaderBytes +
         kVerdictTableBytesMax;
}

}  // namespace edgedraft
