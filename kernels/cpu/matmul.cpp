#include "kernels/cpu/dot_tile.h"

// Few rows: weights are decoded in registers as they stream by, several output columns at once.
// More rows: a panel of weights is decoded into the first-level cache and used for every tile of
// rows; sums wait in scratch between the depths. Both add the same products in the same order.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// Streaming decodes the weights again for each tile of rows, from the cache, and reads all
// activations for every four columns: ahead up to four tiles (measured on AVX-512 for 256 to 4096
// inputs), as long as the activations, 512 KiB, fit the second-level cache.
constexpr std::size_t kStreamColumns = 4;
constexpr std::size_t kStreamRowsMax = 4 * kTileRowsMax;
constexpr std::size_t kStreamFloatsMax = 128 * 1024;

// A block's sums and activations of one depth: 256 and 132 KiB, which a core's second-level cache
// holds. The panel, 16 KiB, and a tile of activations, 12 KiB, stay in the first.
constexpr std::size_t kBlockRows = 64;
constexpr std::size_t kBlockColumns = 64;
constexpr std::size_t kPanelColumns = 8;
constexpr std::size_t kDepth = 512;
// Not a power of two, or rows would compete for the same cache sets.
constexpr std::size_t kPackedStride = kDepth + kLanes;
static_assert(kBlockRows * kBlockColumns * kLanes + (kBlockRows + kPanelColumns) * kPackedStride <=
              kMatmulScratchFloats);

// Tiles of kTileRowsMax rows, or fewer so that they differ by one row at most: then the cost rises
// evenly with the rows.
template <class Task>
EDGEDRAFT_INLINE void for_row_tiles(std::size_t rows, const Task& task) {
  const std::size_t tiles = (rows + kTileRowsMax - 1) / kTileRowsMax;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    const std::size_t row = tile * rows / tiles;
    task(tile, row, (tile + 1) * rows / tiles - row);
  }
}

// Columns column.. of a row: `count` of C totals. Whole tiles go through registers.
template <std::size_t C>
EDGEDRAFT_INLINE void finish(const MatmulArgs& a, std::size_t row, std::size_t column,
                             std::size_t count, const float* totals) {
  float* y = a.y.data + row * a.y.stride + column;
  if (C % 4 == 0 && count == C) {
#pragma GCC unroll 2
    for (std::size_t c = 0; c < C; c += 4) {
      Quad value = load_bytes<Quad>(totals + c);
      if (a.bias != nullptr) value += load_bytes<Quad>(a.bias + column + c);
      if (a.accumulate) value += load_bytes<Quad>(y + c);
      std::memcpy(y + c, &value, sizeof value);
    }
    return;
  }
  for (std::size_t c = 0; c < count; ++c) {
    float value = totals[c];
    if (a.bias != nullptr) value += a.bias[column + c];
    if (a.accumulate) value += y[c];
    y[c] = value;
  }
}

// --- few rows ---

// Rows row..row+R-1 of columns column..column+count-1.
template <class W, std::size_t R>
void stream_tile(const MatmulArgs& a, std::size_t row, std::size_t column, std::size_t count) {
  constexpr std::size_t C = tile_columns(R);
  DotTile<W, R, C> tile;
  tile.first = 0;
  tile.count = a.inputs;
  for (std::size_t r = 0; r < R; ++r) tile.x[r] = a.x.data + (row + r) * a.x.stride;
  // Columns past the end repeat the last one and are dropped.
  for (std::size_t c = 0; c < C; ++c) {
    tile.w[c] = a.weight + (column + smaller(c, count - 1)) * W::row_bytes(a.inputs);
  }
  typename DotTile<W, R, C>::Sums sums;
  sums.clear();
  tile.add_to(sums);
  float totals[R * C];
  total<R, C>(sums, totals);
  for (std::size_t r = 0; r < R; ++r) finish<C>(a, row + r, column, count, totals + r * C);
}

template <class W, std::size_t R>
void stream_rows(const MatmulArgs& a, std::size_t row, std::size_t rows, std::size_t column,
                 std::size_t count) {
  if (rows == R) {
    constexpr std::size_t C = tile_columns(R);
    for (std::size_t c = 0; c < count; c += C) {
      stream_tile<W, R>(a, row, column + c, smaller(C, count - c));
    }
  } else if constexpr (R > 1) {
    stream_rows<W, R - 1>(a, row, rows, column, count);
  }
}

template <class W>
void stream(const MatmulArgs& a, const Work& work) {
  const std::size_t columns = a.rows <= kTileRowsMax ? tile_columns(a.rows) : kStreamColumns;
  for (std::size_t column = work.begin; column < work.end; column += columns) {
    const std::size_t count = smaller(columns, work.end - column);
    for_row_tiles(a.rows, [&](std::size_t, std::size_t row, std::size_t rows) {
      stream_rows<W, kTileRowsMax>(a, row, rows, column, count);
    });
  }
}

// --- many rows ---

struct Block {
  std::size_t row;
  std::size_t row_count;
  std::size_t column;
  std::size_t column_count;
  std::size_t depth;
  std::size_t depth_count;
  float* sums;         // [row_count, kBlockColumns] lanes
  float* activations;  // [row_count, kPackedStride]
  float* panel;        // [kPanelColumns, kPackedStride]
};

// Rows row.. of the block, columns column.. of it, which are panel_column.. of the panel.
template <std::size_t R>
void block_tile(const MatmulArgs& a, const Block& b, std::size_t row, std::size_t panel_first,
                std::size_t panel_column) {
  constexpr std::size_t C = tile_columns(R);
  // Columns past the end are computed from what the panel held before, and dropped.
  static_assert(kPanelColumns % C == 0 && kBlockColumns % kPanelColumns == 0);
  const std::size_t column = panel_first + panel_column;
  DotTile<F32, R, C> tile;
  tile.first = 0;
  tile.count = b.depth_count;
  for (std::size_t r = 0; r < R; ++r) tile.x[r] = b.activations + (row + r) * kPackedStride;
  for (std::size_t c = 0; c < C; ++c) {
    tile.w[c] = reinterpret_cast<const std::byte*>(b.panel + (panel_column + c) * kPackedStride);
  }

  constexpr std::size_t kSumsStride = kBlockColumns * kLanes;
  float* place = b.sums + row * kSumsStride + column * kLanes;
  typename DotTile<F32, R, C>::Sums sums;
  if (b.depth == 0) {
    sums.clear();
  } else {
    sums.load_from(place, kSumsStride);
  }
  tile.add_to(sums);
  if (b.depth + b.depth_count < a.inputs) return sums.store_to(place, kSumsStride);
  float totals[R * C];
  total<R, C>(sums, totals);
  const std::size_t count = smaller(C, b.column_count - column);
  for (std::size_t r = 0; r < R; ++r) {
    finish<C>(a, b.row + row + r, b.column + column, count, totals + r * C);
  }
}

template <std::size_t R>
void block_tile_rows(const MatmulArgs& a, const Block& b, std::size_t row, std::size_t rows,
                     std::size_t panel_first) {
  if (rows == R) {
    const std::size_t count = smaller(kPanelColumns, b.column_count - panel_first);
    for (std::size_t column = 0; column < count; column += tile_columns(R)) {
      block_tile<R>(a, b, row, panel_first, column);
    }
  } else if constexpr (R > 1) {
    block_tile_rows<R - 1>(a, b, row, rows, panel_first);
  }
}

// The panel against all rows of the block.
template <class W>
void multiply_panel(const MatmulArgs& a, const Block& b, std::size_t panel_first) {
  const std::size_t tiles = (b.row_count + kTileRowsMax - 1) / kTileRowsMax;
  const std::size_t next = panel_first + kPanelColumns;
  const std::size_t ahead =
      next < b.column_count ? smaller(kPanelColumns, b.column_count - next) : 0;
  for_row_tiles(b.row_count, [&](std::size_t tile, std::size_t row, std::size_t rows) {
    // The weights of the next panel come from memory while this one is at work.
    for (std::size_t c = ahead * tile / tiles; c < ahead * (tile + 1) / tiles; ++c) {
      prefetch<W>(a.weight + (b.column + next + c) * W::row_bytes(a.inputs), b.depth,
                  b.depth_count);
    }
    block_tile_rows<kTileRowsMax>(a, b, row, rows, panel_first);
  });
}

template <class W>
void multiply_block(const MatmulArgs& a, const Block& b) {
  for (std::size_t r = 0; r < b.row_count; ++r) {
    std::memcpy(b.activations + r * kPackedStride, a.x.data + (b.row + r) * a.x.stride + b.depth,
                b.depth_count * sizeof(float));
  }
  for (std::size_t first = 0; first < b.column_count; first += kPanelColumns) {
    const std::size_t count = smaller(kPanelColumns, b.column_count - first);
    for (std::size_t c = 0; c < count; ++c) {
      decode<W>(a.weight + (b.column + first + c) * W::row_bytes(a.inputs), b.depth, b.depth_count,
                b.panel + c * kPackedStride);
    }
    multiply_panel<W>(a, b, first);
  }
}

template <class W>
void multiply_blocks(const MatmulArgs& a, const Work& work) {
  const std::size_t row_blocks = (a.rows + kBlockRows - 1) / kBlockRows;
  Block b{};
  b.sums = work.scratch;
  b.activations = b.sums + kBlockRows * kBlockColumns * kLanes;
  b.panel = b.activations + kBlockRows * kPackedStride;
  for (b.column = work.begin; b.column < work.end; b.column += kBlockColumns) {
    b.column_count = smaller(kBlockColumns, work.end - b.column);
    for (std::size_t block = 0; block < row_blocks; ++block) {
      b.row = block * a.rows / row_blocks;
      b.row_count = (block + 1) * a.rows / row_blocks - b.row;
      for (b.depth = 0; b.depth < a.inputs; b.depth += kDepth) {
        b.depth_count = smaller(kDepth, a.inputs - b.depth);
        multiply_block<W>(a, b);
      }
    }
  }
}

template <class W>
void multiply(const MatmulArgs& a, const Work& work) {
  if (a.rows <= kTileRowsMax ||
      (a.rows <= kStreamRowsMax && a.rows * a.inputs <= kStreamFloatsMax)) {
    stream<W>(a, work);
  } else {
    multiply_blocks<W>(a, work);
  }
}

}  // namespace

void matmul(const MatmulArgs& a, const Work& work) {
  switch (a.type) {
    case DType::f32:
      return multiply<F32>(a, work);
    case DType::f16:
      return multiply<F16>(a, work);
    case DType::bf16:
      return multiply<BF16>(a, work);
    case DType::q8_0:
    case DType::q4_0:
    case DType::q4_1:
    case DType::q5_0:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
    case DType::q6_k:
      break;  // int8_matmul.cpp
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
