#include "kernels/cpu/float_tile.h"
#include "kernels/cpu/kernels.h"

// Activations for matmul.cpp: a tile reads its rows side by side, input by input, so they are
// stored in that order. Rows with a power-of-two stride then do not compete for cache sets.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// Four inputs of four rows.
EDGEDRAFT_INLINE void put_square(const float* from, std::size_t stride, float* to,
                                 std::size_t rows) {
  const auto a = load_bytes<Quad>(from);
  const auto b = load_bytes<Quad>(from + stride);
  const auto c = load_bytes<Quad>(from + 2 * stride);
  const auto d = load_bytes<Quad>(from + 3 * stride);
  const Quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Quad ab_next = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad cd_next = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Quad inputs[] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5),
                         __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                         __builtin_shufflevector(ab_next, cd_next, 0, 1, 4, 5),
                         __builtin_shufflevector(ab_next, cd_next, 2, 3, 6, 7)};
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) std::memcpy(to + i * rows, &inputs[i], sizeof inputs[i]);
}

void put_tile(const float* from, std::size_t stride, std::size_t rows, std::size_t inputs,
              float* to) {
  std::size_t row = 0;
  for (; row + 4 <= rows; row += 4, from += 4 * stride) {
    std::size_t k = 0;
    for (; k + 4 <= inputs; k += 4) put_square(from + k, stride, to + k * rows + row, rows);
    for (; k < inputs; ++k) {
      for (std::size_t r = 0; r < 4; ++r) to[k * rows + row + r] = from[k + r * stride];
    }
  }
  for (; row < rows; ++row, from += stride) {
    for (std::size_t k = 0; k < inputs; ++k) to[k * rows + row] = from[k];
  }
}

}  // namespace

void interleave(const InterleaveArgs& a, const Work& work) {
  const RowTiles tiles(a.rows);
  for (std::size_t chain = work.begin; chain < work.end; ++chain) {
    const std::size_t first = chain * kChainInputs;
    const std::size_t inputs = smaller(kChainInputs, a.cols - first);
    for (std::size_t tile = 0; tile < tiles.count; ++tile) {
      const std::size_t row = tiles.first_row(tile);
      put_tile(a.x.data + row * a.x.stride + first, a.x.stride, tiles.first_row(tile + 1) - row,
               inputs, a.y + first * a.rows + row * inputs);
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
