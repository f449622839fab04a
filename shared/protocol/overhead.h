#pragma once

#include <cstdint>

#include "shared/protocol/activation_codec.h"
#include "shared/protocol/frame.h"

// What a cycle costs on the wire beside the paper's 4 M bytes up and 3 A + A x (values of a row)
// down, so that measured bytes can be held against the formula (docs/protocol.md, "Bytes a cycle").
namespace edgedraft {

// FlatBuffers' root offset, vtable, lengths and padding, and the fields that the paper leaves out
// (round, length, times), at most.
inline constexpr std::uint32_t kDraftTableBytesMax = 48;
inline constexpr std::uint32_t kVerdictTableBytesMax = 112;
inline constexpr std::uint32_t kStreamVerdictTableBytesMax = 104;
// What a TLS 1.3 record adds: header, content type, tag.
inline constexpr std::uint32_t kTlsRecordBytes = 22;

// The size of a draft of `node_count` nodes: the paper's bytes, and those with all below TLS.
inline std::uint64_t draft_formula_bytes(std::uint32_t node_count) {
  return 4ull * node_count;
}
inline std::uint64_t draft_frame_bytes_max(std::uint32_t node_count) {
  return draft_formula_bytes(node_count) + kFrameHeaderBytes + kDraftTableBytesMax;
}

// The size of a verdict on `new_count` new tokens.
inline std::uint64_t verdict_formula_bytes(const ActivationLayout& layout,
                                           std::uint32_t new_count) {
  return std::uint64_t{new_count} * (3 + layout.cols());
}
inline std::uint64_t verdict_frame_bytes_max(const ActivationLayout& layout,
                                             std::uint32_t new_count) {
  const std::uint64_t scale_bytes = 2ull * layout.scale_groups().size() * new_count;
  return verdict_formula_bytes(layout, new_count) + scale_bytes + kFrameHeaderBytes +
         kVerdictTableBytesMax;
}
// The size of a stream's verdict: four bytes a token where the formula has three.
inline std::uint64_t stream_verdict_frame_bytes_max(std::uint32_t new_count) {
  return 4ull * new_count + kFrameHeaderBytes + kStreamVerdictTableBytesMax;
}

}  // namespace edgedraft
