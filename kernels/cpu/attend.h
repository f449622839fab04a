#pragma once

#include "kernels/cpu/kernels.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// At most kAttentionTileRows query rows that see `prefix` slots and, with masks, some of the slots
// after them.
struct AttendTile {
  ConstRows q;  // from the tile's first row, as are masks and y
  ConstCache keys;
  ConstCache values;
  Pages pages;
  std::size_t rows;
  std::size_t prefix;
  const std::uint64_t* masks;  // [rows, kMaskWords] or null
  Heads heads;
  Rows y;
  float scale;
  std::uint32_t window;            // 0: none
  const std::uint32_t* positions;  // from the tile's first row, if there is a window
  const float* sinks;              // of all query heads, or null

  // First rank in a row's window.
  std::size_t begin(std::size_t row) const {
    return window != 0 && positions[row] >= window ? positions[row] - window + 1 : 0;
  }
};

// softmax(scale * q . K) V for the query heads of one key-value head. Requires scratch of
// attention_scratch_floats.
void attend(const AttendTile& tile, std::size_t kv_head, float* scratch);

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
