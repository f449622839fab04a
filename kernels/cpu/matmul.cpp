#include "kernels/cpu/float_tile.h"
#include "kernels/cpu/kernels.h"

// Processes a panel of 32 outputs at a time. Few rows: one tile of all rows streams through the
// panel, decoding in registers. More rows: the inputs of a chain are decoded into the first-level
// cache and used for every tile of rows. Both add the same products in the same order.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// Tiles whose sums, at most 18 KiB, stay in the first-level cache with a chain's weights, 8 KiB.
constexpr std::size_t kBlockTiles = 144 / kFloatTileRowsMax;

struct Scratch {
  float sums[kBlockTiles * kFloatTileRowsMax * kPanelOutputs];
  float lines[kChainInputs * kPanelOutputs];
};
static_assert(sizeof(Scratch) <= kMatmulScratchFloats * sizeof(float));

// Few rows.
template <class W, std::size_t R = kFloatTileRowsMax>
void stream(const MatmulArgs& a, const std::byte* panel, float* sums) {
  if (a.rows == R) {
    constexpr std::size_t P = float_tile_parts(R);
    AskAlong<W> ahead{panel};
    AskForNone nothing;
    for (std::size_t k = 0; k < a.inputs; k += kChainInputs) {
      const Chain chain{panel + k * W::kLineBytes, a.x + k * R, smaller(kChainInputs, a.inputs - k),
                        k == 0};
      add_chain<W, R, P>(chain, 0, sums, ahead);
      for (std::size_t part = 1; part < kPanelParts / P; ++part) {
        add_chain<W, R, P>(chain, part, sums, nothing);
      }
    }
  } else if constexpr (R > 1) {
    stream<W, R - 1>(a, panel, sums);
  }
}

template <std::size_t R>
void add_rows(const Chain& chain, std::size_t rows, float* sums, AskForChain& ahead) {
  if (rows == R) {
    constexpr std::size_t P = float_tile_parts(R);
    for (std::size_t part = 0; part < kPanelParts / P; ++part) {
      add_chain<PanelF32, R, P>(chain, part, sums, ahead);
    }
  } else if constexpr (R > 1) {
    add_rows<R - 1>(chain, rows, sums, ahead);
  }
}

// A chain's elements, shared by several tiles.
template <class W>
const std::byte* decode(const std::byte* lines, std::size_t count, float* to) {
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t p = 0; p < kPanelParts; ++p) {
      store_part(to + k * kPanelOutputs + p * kPartLanes,
                 W::template part<kPanelParts>(lines + k * W::kLineBytes, 0, p));
    }
  }
  return reinterpret_cast<const std::byte*>(to);
}
template <>
const std::byte* decode<PanelF32>(const std::byte* lines, std::size_t, float*) {
  return lines;
}

// Tiles first_tile..last_tile-1; the prefetches of the next chain are spread over all of their
// passes.
template <class W>
void add_tiles(const MatmulArgs& a, const RowTiles& tiles, std::size_t first_tile,
               std::size_t last_tile, const std::byte* panel, Scratch& scratch) {
  constexpr std::size_t kLines = kChainInputs * W::kLineBytes / kCacheLineBytes;
  constexpr std::size_t kTurns =
      kChainInputs / kAskInputs * (kPanelParts / float_tile_parts(kFloatTileRowsMax));
  const std::size_t tile_count = last_tile - first_tile;
  const std::size_t lines_a_turn = (kLines + tile_count * kTurns - 1) / (tile_count * kTurns);
  const std::size_t asking_tiles = (kLines + lines_a_turn * kTurns - 1) / (lines_a_turn * kTurns);
  const std::size_t first_row = tiles.first_row(first_tile);
  for (std::size_t k = 0; k < a.inputs; k += kChainInputs) {
    const std::byte* lines = panel + k * W::kLineBytes;
    const std::size_t count = smaller(kChainInputs, a.inputs - k);
    const std::byte* numbers = decode<W>(lines, count, scratch.lines);
    AskForChain ahead{lines + count * W::kLineBytes, lines_a_turn};
    for (std::size_t tile = first_tile; tile < last_tile; ++tile) {
      if (tile - first_tile == asking_tiles) ahead.lines = 0;
      const std::size_t row = tiles.first_row(tile);
      const Chain chain{numbers, a.x + k * a.rows + row * count, count, k == 0};
      add_rows<kFloatTileRowsMax>(chain, tiles.first_row(tile + 1) - row,
                                  scratch.sums + (row - first_row) * kPanelOutputs, ahead);
    }
  }
}

template <class W>
void multiply(const MatmulArgs& a, const Work& work) {
  auto& scratch = *reinterpret_cast<Scratch*>(work.scratch);
  const RowTiles tiles(a.rows);
  const std::size_t blocks = (tiles.count + kBlockTiles - 1) / kBlockTiles;
  for (std::size_t panel = work.begin; panel < work.end; ++panel) {
    const std::byte* lines = a.panels + panel * a.inputs * W::kLineBytes;
    const std::size_t column = panel * kPanelOutputs;
    const std::size_t count = smaller(kPanelOutputs, a.outputs - column);
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t first_tile = block * tiles.count / blocks;
      const std::size_t last_tile = (block + 1) * tiles.count / blocks;
      if (tiles.count == 1) {
        stream<W>(a, lines, scratch.sums);
      } else {
        add_tiles<W>(a, tiles, first_tile, last_tile, lines, scratch);
      }
      const std::size_t first_row = tiles.first_row(first_tile);
      for (std::size_t row = first_row; row < tiles.first_row(last_tile); ++row) {
        finish(a, row, column, count, scratch.sums + (row - first_row) * kPanelOutputs);
      }
    }
  }
}

}  // namespace

void matmul(const MatmulArgs& a, const Work& work) {
  switch (a.type) {
    case DType::f32:
      return multiply<PanelF32>(a, work);
    case DType::f16:
      return multiply<PanelF16>(a, work);
    case DType::bf16:
      return multiply<PanelBF16>(a, work);
    default:
      break;  // handled in int8_matmul.cpp
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
