#pragma once

#include "kernels/cpu/simd.h"

// AMX tile registers: eight, each of up to 16 rows of 64 bytes.
#if defined(__AMX_INT8__)
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

inline constexpr std::size_t kTileRowsMax = 16;
inline constexpr std::size_t kTileRowBytesMax = 64;

// Tile configuration in the layout of ldtilecfg.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(std::size_t tile, std::size_t tile_rows, std::size_t tile_row_bytes) {
    rows[tile] = static_cast<std::uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(tile_row_bytes);
  }
};
static_assert(sizeof(TileShapes) == 64);

// Compiler barrier before tile loads: the compiler does not know that tile instructions read
// memory.
EDGEDRAFT_INLINE void settle_memory() {
  __asm__ volatile("" : : : "memory");
}

// Gather indices of a column in a stored tile of 16 per row.
EDGEDRAFT_INLINE __m512i down_a_tile() {
  constexpr int kRow = kTileRowBytesMax / sizeof(float);
  return _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                            _mm512_set1_epi32(kRow));
}

// The thread may use tiles for this object's lifetime. Its end releases the tile state, so that the
// system need not save it on a context switch.
class Tiles {
 public:
  explicit Tiles(const TileShapes& shapes) {
    settle_memory();
    _tile_loadconfig(&shapes);
  }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
#endif
