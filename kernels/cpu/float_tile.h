#pragma once

#include "kernels/cpu/ops.h"
#include "kernels/cpu/panels.h"

// Matmuls of float weights in panels (packed.h) with activations of interleave.cpp. A register
// holds outputs side by side, and an activation is multiplied with all of them, so no sum crosses
// lanes.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// Registers of a panel per tile, and its maximum rows: as many sums as fit into registers with the
// operands. Few rows take more of the panel, since a sum can be updated only every few cycles.
#if defined(__AVX512F__)
inline constexpr std::size_t kFloatTileRowsMax = 12;
constexpr std::size_t float_tile_parts(std::size_t) {
  return 2;
}
#elif defined(__aarch64__)
inline constexpr std::size_t kFloatTileRowsMax = 12;
constexpr std::size_t float_tile_parts(std::size_t rows) {
  return rows <= 3 ? 8 : rows <= 6 ? 4 : 2;
}
#else
inline constexpr std::size_t kFloatTileRowsMax = 6;
constexpr std::size_t float_tile_parts(std::size_t rows) {
  return rows <= 1 ? kPanelParts : rows <= 3 ? 4 : 2;
}
#endif

// Tiles of a call have equal size or one row less, so the cost grows evenly with the rows.
struct RowTiles {
  std::size_t rows;
  std::size_t count;

  explicit constexpr RowTiles(std::size_t row_count)
      : rows(row_count), count((row_count + kFloatTileRowsMax - 1) / kFloatTileRowsMax) {}
  // The first row of tile `tile`; past the last tile, the row count.
  constexpr std::size_t first_row(std::size_t tile) const { return tile * rows / count; }
};

// Panel registers of a tile of P registers: every kPanelParts / P-th, so that it has both halves of
// a bfloat16 word.
template <std::size_t P>
constexpr std::size_t part_index(std::size_t first, std::size_t p) {
  return first + p * (kPanelParts / P);
}

// Weight types in a panel. part: one register of the outputs of one input.
struct PanelF32 {
  static constexpr std::size_t kLineBytes = 4 * kPanelOutputs;
  template <std::size_t P>
  static EDGEDRAFT_INLINE Part part(const std::byte* line, std::size_t first, std::size_t p) {
    return load_bytes<Part>(line + part_index<P>(first, p) * sizeof(Part));
  }
};

struct PanelF16 {
  static constexpr std::size_t kLineBytes = 2 * kPanelOutputs;
  template <std::size_t P>
  static EDGEDRAFT_INLINE Part part(const std::byte* line, std::size_t first, std::size_t p) {
    return load_halves(line + part_index<P>(first, p) * (sizeof(Part) / 2));
  }
};

// The halves of a word are half a panel apart.
struct PanelBF16 {
  static constexpr std::size_t kLineBytes = 2 * kPanelOutputs;
  template <std::size_t P>
  static EDGEDRAFT_INLINE Part part(const std::byte* line, std::size_t first, std::size_t p) {
    static_assert(P % 2 == 0);
    const auto words =
        load_bytes<UintPart>(line + part_index<P>(first, p % (P / 2)) * sizeof(Part));
    return reinterpret_cast<Part>(p < P / 2 ? words << 16 : words & 0xFFFF0000u);
  }
};

// Prefetches are spread, one batch every few inputs; issued at once they would fill the memory
// queue. A tile narrower than the panel passes over a chain several times.
inline constexpr std::size_t kAskInputs = 4;

// One tile streams through the panel: prefetches match use, in the first pass.
template <class W>
struct AskAlong {
  static constexpr std::size_t kAheadBytes = 4096;
  const std::byte* at;  // position in use

  EDGEDRAFT_INLINE void ask() {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kAskInputs * W::kLineBytes; i += kCacheLineBytes) {
      __builtin_prefetch(at + kAheadBytes + i, 0, 3);
    }
    at += kAskInputs * W::kLineBytes;
  }
};

struct AskForNone {
  EDGEDRAFT_INLINE void ask() {}
};

// Several tiles use a chain's weights and share its prefetches.
struct AskForChain {
  const std::byte* from;
  std::size_t lines;  // per batch

  EDGEDRAFT_INLINE void ask() {
    for (std::size_t i = 0; i < lines; ++i, from += kCacheLineBytes) {
      __builtin_prefetch(from, 0, 2);
    }
  }
};

// The products of a chain's inputs, for some rows.
struct Chain {
  const std::byte* lines;  // lines of weights
  const float* x;          // [inputs, rows]
  std::size_t inputs;
  bool is_first;  // no sums exist yet
};

// R rows times P registers of outputs. Row r's sums are at sums + r * kPanelOutputs.
template <class W, std::size_t R, std::size_t P, class Ahead>
EDGEDRAFT_INLINE void add_chain(const Chain& chain, std::size_t first_part, float* sums,
                                Ahead& ahead) {
  Part added[R][P];
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (std::size_t p = 0; p < P; ++p) added[r][p] = Part{};
  }
  // The smaller operand set stays in registers; the other is loaded one at a time.
  const auto add_input = [&](std::size_t k) __attribute__((always_inline)) {
    const std::byte* line = chain.lines + k * W::kLineBytes;
    const float* x = chain.x + k * R;
    if constexpr (R < P) {
      Part activations[R];
#pragma GCC unroll 12
      for (std::size_t r = 0; r < R; ++r) activations[r] = all_part(x[r]);
#pragma GCC unroll 8
      for (std::size_t p = 0; p < P; ++p) {
        const Part weight = W::template part<P>(line, first_part, p);
#pragma GCC unroll 12
        for (std::size_t r = 0; r < R; ++r) added[r][p] = fma(activations[r], weight, added[r][p]);
      }
    } else {
      Part weights[P];
#pragma GCC unroll 8
      for (std::size_t p = 0; p < P; ++p) weights[p] = W::template part<P>(line, first_part, p);
#pragma GCC unroll 12
      for (std::size_t r = 0; r < R; ++r) {
        const Part activation = all_part(x[r]);
#pragma GCC unroll 8
        for (std::size_t p = 0; p < P; ++p) added[r][p] = fma(activation, weights[p], added[r][p]);
      }
    }
  };
  std::size_t k = 0;
  for (; k + kAskInputs <= chain.inputs; k += kAskInputs) {
    ahead.ask();
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kAskInputs; ++i) add_input(k + i);
  }
  for (; k < chain.inputs; ++k) add_input(k);
#pragma GCC unroll 12
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (std::size_t p = 0; p < P; ++p) {
      float* to = sums + r * kPanelOutputs + part_index<P>(first_part, p) * kPartLanes;
      store_part(to, chain.is_first ? added[r][p] : load_part(to) + added[r][p]);
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
