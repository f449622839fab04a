#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "shared/runtime/kv_pool.h"

namespace edgedraft::server {

// Least distance between checkpoints of recurrent states, so that a prompt rarely ends a pass
// early.
inline constexpr std::uint32_t kCheckpointSpacingMin = 256;
static_assert(kCheckpointSpacingMin % KvPool::kPageSlots == 0);

// Tokens from a checkpoint at `length` to the next. The distance grows with the depth, so that a
// text of 2^n tokens has at most 4 * n of them, and an edit repeats at most a quarter of the text
// before it.
inline std::uint32_t checkpoint_spacing(std::uint32_t length) {
  return std::max(kCheckpointSpacingMin, std::bit_floor(length) / 4);
}

// Checkpoints of a text that is read at once.
inline std::uint32_t checkpoint_count(std::uint32_t length) {
  std::uint32_t count = 0;
  for (std::uint32_t at = 0; length - at >= checkpoint_spacing(at); ++count) {
    at += checkpoint_spacing(at);
  }
  return count;
}

// Next position at which a prompt's pass must end for a checkpoint, or empty: a page boundary
// within `length` < position <= `end`. `last` is the deepest checkpoint of the text before. The
// last boundary of a long prompt is one, since the next prompt often replaces the answer.
inline std::optional<std::uint32_t> next_checkpoint(std::uint32_t last, std::uint32_t length,
                                                    std::uint32_t end) {
  constexpr std::uint32_t kPage = KvPool::kPageSlots;
  const std::uint32_t last_boundary = end - end % kPage;
  if (last_boundary <= length || last_boundary < last + kCheckpointSpacingMin) return std::nullopt;
  const std::uint32_t due = std::max(last + checkpoint_spacing(last), length + 1);
  return std::min((due + kPage - 1) / kPage * kPage, last_boundary);
}

}  // namespace edgedraft::server
