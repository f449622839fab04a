#pragma once

#include "kernels/cpu/ops.h"
#include "kernels/cpu/panels.h"

// Products of float weights in panels (packed.h) with activations of interleave.cpp: a register
// holds outputs side by side, and an activation is multiplied with all of them, so that nothing is
// added up across a register.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// The registers of a panel that a tile holds, and its most rows: as many sums as the registers have
// room for beside the operands. Few rows take more of the panel, for a sum can be added to only
// every few cycles.
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

// Rows share a call in tiles of equal size or one row less: then the cost rises evenly with the
// rows.
struct RowTiles {
  std::size_t rows;
  std::size_t count;

  explicit constexpr RowTiles(std::size_t row_count)
      : rows(row_count), count((row_count + kFloatTileRowsMax - 1) / kFloatTileRowsMax) {}
  // The first row of tile `tile`; behind the last tile, the number of rows.
  constexpr std::size_t first_row(std::size_t tile) const { return tile * rows / count; }
};

// The registers of a panel that a tile of P registers takes: every kPanelParts / P-th from one of
// the first on, so that it has both halves of a word of bfloat16.
template <std::size_t P>
constexpr std::size_t part_index(std::size_t first, std::size_t p) {
  return first + p * (kPanelParts / P);
}

// The types of weights in a panel. part: of the outputs of one input, that register.
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

// What will be wanted soon is asked for little by little, every few inputs: at once it would fill
// the queue to memory. A tile that is no whole panel walks through a chain several times.
inline constexpr std::size_t kAskInputs = 4;

// One tile streams through the panel: as much is asked for as is used, in the first walk.
template <class W>
struct AskAlong {
  static constexpr std::size_t kAheadBytes = 4096;
  const std::byte* at;  // what is used now

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

// Several tiles share a chain's weights and asking for the next one's.
struct AskForChain {
  const std::byte* from;
  std::size_t lines;  // each time

  EDGEDRAFT_INLINE void ask() {
    for (std::size_t i = 0; i < lines; ++i, from += kCacheLineBytes) {
      __builtin_prefetch(from, 0, 2);
    }
  }
};

// The products of a chain's inputs, for some rows.
struct Chain {
  const std::byte* lines;  // of weights
  const float* x;          // [inputs, rows]
  std::size_t inputs;
  bool is_first;  // no sums are there yet
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
  // The fewer operands stay in registers, the others come one at a time.
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
