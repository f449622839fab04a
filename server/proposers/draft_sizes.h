#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace edgedraft {

// The sizes of drafts, root included, by which both sides keep account of them and by which a
// verdict's outlook tells of them: 1 row, 2, up to 4, up to 8, ..., up to 256.
inline constexpr std::size_t kDraftSizes = 9;

constexpr std::size_t draft_size(std::uint32_t rows) {
  const auto size = static_cast<std::size_t>(std::bit_width(std::max(rows, 1u) - 1));
  return std::min(size, kDraftSizes - 1);
}

// The most rows of that size.
constexpr std::uint32_t rows_of_size(std::size_t size) {
  return 1u << size;
}

}  // namespace edgedraft
