#include "kernels/cpu/amx.h"
#include "kernels/cpu/kernels.h"

// Matmuls of bfloat16 weights with float32 activations on AMX tile registers.
//
// A tile instruction multiplies 16 outputs by 16 rows over 32 inputs in sixteen cycles, however few
// the rows. Weights are the left operand, read in file layout; each activation is three bfloat16
// terms (split.cpp), whose products with a weight are exact. Sums run over the cells of inputs in
// order, and over the three terms of each, for every row count.
#if defined(__AMX_BF16__)
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

constexpr std::size_t kOutputs = kTileRowsMax;
constexpr std::size_t kRows = kSplitCellRows;
constexpr std::size_t kCellRowBytes = kSplitCellInputs * 2;  // weights of one output
constexpr std::size_t kPartBytes = kSplitCellBytes / kSplitParts;
static_assert(kCellRowBytes == kTileRowBytesMax && kPartBytes == kTileRowsMax * kTileRowBytesMax);

// Prefetch distance for weights, in cells.
constexpr std::size_t kAheadCells = 12;

// Up to two times 16 outputs and up to two groups of rows: sums [output][row] side by side.
struct Block {
  std::size_t column;
  std::size_t outputs[2];  // 0: none
  std::size_t group;       // the first
  std::size_t rows[2];
};
using Sums = float[2][2][kOutputs][kRows];  // outputs, group
static_assert(sizeof(Sums) <= kMatmulScratchFloats * sizeof(float));

// Tiles 0 to 3: sums. 4, 5: weights. 6, 7: activations.
TileShapes shapes_of(const Block& b) {
  TileShapes shapes;
  for (std::size_t i = 0; i < 2; ++i) {
    shapes.set(4 + i, b.outputs[i], kCellRowBytes);
    shapes.set(6 + i, kSplitCellInputs / 2, b.rows[i] * sizeof(float));
    for (std::size_t j = 0; j < 2; ++j) {
      shapes.set(2 * j + i, b.outputs[i], b.rows[j] * sizeof(float));
    }
  }
  for (std::size_t tile = 0; tile < 8; ++tile) {
    if (shapes.rows[tile] == 0 || shapes.row_bytes[tile] == 0) shapes.set(tile, 0, 0);
  }
  return shapes;
}

// Prefetches a cell of the block's weights, or of the next block's.
EDGEDRAFT_INLINE void ask(const std::byte* weight, std::size_t row_bytes, std::size_t outputs,
                          std::size_t at) {
  if (at >= row_bytes) {
    weight += outputs * row_bytes;
    at -= row_bytes;
  }
  for (std::size_t output = 0; output < outputs; ++output) {
    __builtin_prefetch(weight + output * row_bytes + at, 0, 2);
  }
}

template <bool kTwoOutputs, bool kTwoGroups>
void multiply(const TileMatmulArgs& a, const Block& b, Sums& sums) {
  const std::size_t cells = a.inputs / kSplitCellInputs;
  const std::size_t row_bytes = a.inputs * 2;
  const std::byte* weight = a.weight + b.column * row_bytes;
  const std::byte* second = weight + kOutputs * row_bytes;
  const std::byte* x = a.x + b.group * cells * kSplitCellBytes;
  const std::byte* next_x = x + cells * kSplitCellBytes;
  const Tiles tiles(shapes_of(b));  // sums are zero
  for (std::size_t cell = 0; cell < cells; ++cell) {
    if (b.group == 0) {
      ask(weight, row_bytes, b.outputs[0] + b.outputs[1], (cell + kAheadCells) * kCellRowBytes);
    }
    _tile_loadd(4, weight + cell * kCellRowBytes, row_bytes);
    if constexpr (kTwoOutputs) _tile_loadd(5, second + cell * kCellRowBytes, row_bytes);
    for (std::size_t part = 0; part < kSplitParts; ++part) {
      _tile_loadd(6, x, kTileRowBytesMax);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (kTwoOutputs) _tile_dpbf16ps(1, 5, 6);
      if constexpr (kTwoGroups) {
        _tile_loadd(7, next_x, kTileRowBytesMax);
        _tile_dpbf16ps(2, 4, 7);
        if constexpr (kTwoOutputs) _tile_dpbf16ps(3, 5, 7);
      }
      x += kPartBytes;
      next_x += kPartBytes;
    }
  }
  _tile_stored(0, sums[0][0], sizeof sums[0][0][0]);
  if constexpr (kTwoOutputs) _tile_stored(1, sums[1][0], sizeof sums[0][0][0]);
  if constexpr (kTwoGroups) {
    _tile_stored(2, sums[0][1], sizeof sums[0][0][0]);
    if constexpr (kTwoOutputs) _tile_stored(3, sums[1][1], sizeof sums[0][0][0]);
  }
}

void multiply(const TileMatmulArgs& a, const Block& b, Sums& sums) {
  const auto run = b.outputs[1] == 0
                       ? (b.rows[1] == 0 ? multiply<false, false> : multiply<false, true>)
                   : b.rows[1] == 0 ? multiply<true, false>
                                    : multiply<true, true>;
  run(a, b, sums);
  settle_memory();
}

// Adds the bias and the old values, and writes `count` outputs of a row from a column of sums.
void finish(const TileMatmulArgs& a, std::size_t row, std::size_t column, std::size_t count,
            const float* sums) {
  const __m512i down = down_a_tile();
  const auto some = static_cast<__mmask16>((1u << count) - 1);
  float* y = a.y.data + row * a.y.stride + column;
  __m512 value = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), some, down, sums, sizeof(float));
  if (a.bias != nullptr) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(some, a.bias + column));
  if (a.accumulate) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(some, y));
  _mm512_mask_storeu_ps(y, some, value);
}

}  // namespace

void tile_matmul(const TileMatmulArgs& a, const Work& work) {
  auto& sums = *reinterpret_cast<Sums*>(work.scratch);
  for (std::size_t column = work.begin; column < work.end; column += 2 * kOutputs) {
    const std::size_t outputs = smaller(2 * kOutputs, work.end - column);
    const std::size_t first = smaller(kOutputs, outputs);
    for (std::size_t row = 0; row < a.rows; row += 2 * kRows) {
      const std::size_t rows = smaller(2 * kRows, a.rows - row);
      const std::size_t first_rows = smaller(kRows, rows);
      const Block b{column, {first, outputs - first}, row / kRows, {first_rows, rows - first_rows}};
      multiply(a, b, sums);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t i = 0; i < 2 && b.outputs[i] != 0; ++i) {
          finish(a, row + r, column + i * kOutputs, b.outputs[i],
                 &sums[i][r / kRows][0][r % kRows]);
        }
      }
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
#endif
