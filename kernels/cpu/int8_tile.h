#pragma once

#include "kernels/cpu/packed_weights.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// A tile is up to kInt8TileRowsMax rows of activations times kTileParts registers of outputs, with
// two sums per pair in registers. Few rows may take a whole panel instead, whose second sums are in
// memory: an activation is then loaded once per panel.
inline constexpr std::size_t kTileParts = 2;
static_assert(kPanelParts % kTileParts == 0);
#if defined(EDGEDRAFT_SHORT_SUMS) && !defined(__aarch64__)
inline constexpr std::size_t kInt8TileRowsMax = 6;
template <class W>
inline constexpr std::size_t kWholePanelRowsMax = kHasShortSums<W::kBits> ? 2 : 3;
#else
#if defined(__AVX512F__) && defined(EDGEDRAFT_DOT_INSTRUCTION)
inline constexpr std::size_t kInt8TileRowsMax = 6;
#elif defined(__AVX512F__)
inline constexpr std::size_t kInt8TileRowsMax = 5;
#elif defined(__aarch64__) && defined(EDGEDRAFT_DOT_INSTRUCTION)
inline constexpr std::size_t kInt8TileRowsMax = 6;
#elif defined(__aarch64__)
inline constexpr std::size_t kInt8TileRowsMax = 4;  // for sums of two registers each
#elif defined(EDGEDRAFT_DOT_INSTRUCTION)
inline constexpr std::size_t kInt8TileRowsMax = 3;
#else
inline constexpr std::size_t kInt8TileRowsMax = 2;
#endif
template <class W>
inline constexpr std::size_t kWholePanelRowsMax = 0;
#endif
template <class W>
constexpr std::size_t parts_of_tile(std::size_t rows) {
  return rows <= kWholePanelRowsMax<W> ? kPanelParts : kTileParts;
}

// Prefetches are spread over each block; issued at once they would fill the memory queue. A block
// has this many turns: eight quads and the scales. Tiles narrower than the panel pass over it
// several times, and may prefetch in each pass.
inline constexpr std::size_t kAskTurns = 9;

struct AskNothing {
  template <std::size_t kTurn>
  EDGEDRAFT_INLINE void ask() {}
  EDGEDRAFT_INLINE AskNothing in_next_walk() const { return {}; }
};

// One tile streams through the panel: each turn prefetches as many lines as it uses, at two
// distances. The hardware prefetcher, which stays within 4 KB, does the rest. Prefetching farther
// ahead, or at one distance only, is up to a tenth slower (docs/records/performance.md).
template <class W>
struct AskSteadily {
  static constexpr std::size_t kPlaces[] = {2176, 3264};
  static constexpr std::size_t kHeaderBlocks = W::kSizes.blocks;
  static constexpr std::size_t kLines =
      (W::kSizes.bytes(kHeaderBlocks) + kHeaderBlocks * kCacheLineBytes - 1) /
      (kHeaderBlocks * kCacheLineBytes);  // per block
  const std::byte* at;                    // position in use

  template <std::size_t kTurn>
  EDGEDRAFT_INLINE void ask() {
#pragma GCC unroll 8
    for (std::size_t i = kTurn * kLines / kAskTurns; i < (kTurn + 1) * kLines / kAskTurns; ++i) {
      for (const std::size_t place : kPlaces) {
        __builtin_prefetch(at + place + i * kCacheLineBytes, 0, 2);
      }
    }
    if (kTurn + 1 == kAskTurns) at += kLines * kCacheLineBytes;
  }
  EDGEDRAFT_INLINE AskNothing in_next_walk() const {
    return {};
  }
};

// Several tiles use a chunk of the panel and share the prefetches of the next one. They alternate
// between two streams, since the hardware prefetcher also reads ahead, but only a limited distance
// per stream.
struct AskForChunk {
  static constexpr std::size_t kPlaces = 2;
  const std::byte* from = nullptr;  // the first stream
  std::size_t distance = 0;         // between streams
  std::size_t turns = 0;            // with prefetches

  template <std::size_t kTurn>
  EDGEDRAFT_INLINE void ask() {
    if (kTurn >= turns) return;
    __builtin_prefetch(from, 0, 2);
    __builtin_prefetch(from + distance, 0, 2);
    from += kCacheLineBytes;
  }
  EDGEDRAFT_INLINE AskForChunk& in_next_walk() { return *this; }
};

// R rows of activations times parts_of_tile registers of outputs, the first of which is kFirstPart.
//
// sums[r][o] += sum over blocks b of scale_b * (weight_scale_b * dot_b), in order: every element
// takes these steps in any tile.
template <class Source, std::size_t R, std::size_t kFirstPart>
struct Int8Tile {
  using W = typename Source::W;
  static constexpr std::size_t P = parts_of_tile<W>(R);

  // `blocks` blocks from the position of source and from x[r] on; row r's sums are at sums + r *
  // kPanelOutputs.
  template <class Ahead>
  static void run(Source source, std::size_t blocks, const std::byte* const (&x)[R], float* sums,
                  Ahead& ahead) {
    const std::byte* at[R];
    Part in_use[R][P];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < R; ++r) {
      at[r] = x[r];
#pragma GCC unroll 8
      for (std::size_t p = 0; p < P; ++p) in_use[r][p] = load_part(place(sums, r, p));
    }
    for (std::size_t block = 0; block < blocks; ++block) {
      add_block(source, at, in_use, ahead);
      source.next();
#pragma GCC unroll 8
      for (std::size_t r = 0; r < R; ++r) at[r] += kActivationBlockBytes;
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (std::size_t p = 0; p < P; ++p) store_part(place(sums, r, p), in_use[r][p]);
    }
  }
  static EDGEDRAFT_INLINE float* place(float* sums, std::size_t r, std::size_t p) {
    return sums + r * kPanelOutputs + (kFirstPart + p) * kPartLanes;
  }

  template <class Ahead>
  static EDGEDRAFT_INLINE void add_block(const Source& source, const std::byte* const (&x)[R],
                                         Part (&sums)[R][P], Ahead& ahead) {
    IntPart dots[R][P];
    Part scaled[R][P] = {};
    for (std::size_t half = 0; half < W::kHalves; ++half) {
#pragma GCC unroll 8
      for (std::size_t r = 0; r < R; ++r) {
        const IntPart start = kStartsLast ? IntPart{} : start_of_row(x[r], half);
#pragma GCC unroll 8
        for (std::size_t p = 0; p < P; ++p) dots[r][p] = start;
      }
      if (half == 0) {
        add_quads<0, 8 / W::kHalves>(source, x, dots, ahead);
      } else {
        add_quads<4, 8>(source, x, dots, ahead);
      }
      if constexpr (kStartsLast) {
#pragma GCC unroll 8
        for (std::size_t r = 0; r < R; ++r) {
          const IntPart start = start_of_row(x[r], half);
#pragma GCC unroll 8
          for (std::size_t p = 0; p < P; ++p) dots[r][p] += start;
        }
      }
      if (half + 1 == W::kHalves) ahead.template ask<kAskTurns - 1>();
#pragma GCC unroll 8
      for (std::size_t p = 0; p < P; ++p) {
        const Part scale = source.scale(kFirstPart + p, half);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < R; ++r) {
          const Part dot = __builtin_convertvector(dots[r][p], Part);
          scaled[r][p] = half == 0 ? dot * scale : fma(dot, scale, scaled[r][p]);
        }
      }
    }
    if constexpr (W::kHasMinimum) add_minima(source, x, scaled);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < R; ++r) {
      const Part scale = all_part(scale_of(x[r]));
#pragma GCC unroll 8
      for (std::size_t p = 0; p < P; ++p) sums[r][p] = fma(scaled[r][p], scale, sums[r][p]);
    }
  }

  // No registers are left for them next to short sums.
  static constexpr bool kStartsLast = kHasShortSums<W::kBits> && !W::kHasMinimum;
  // Starts are for weights that are 128 too large.
  static constexpr int kStartShift = kIsLow<W::kBits> ? 8 - W::kBits : 0;
  static EDGEDRAFT_INLINE IntPart start_of_row(const std::byte* x, std::size_t half) {
    if constexpr (W::kHasMinimum || kHasSigns<W::kBits>) return IntPart{};
    return all_int(start_of(x, W::kHalves, half)) >> kStartShift;
  }

  // Dot products of quads q..kEnd-1.
  template <int q, int kEnd, class Ahead>
  static EDGEDRAFT_INLINE void add_quads(const Source& source, const std::byte* const (&x)[R],
                                         IntPart (&dots)[R][P], Ahead& ahead) {
    if constexpr (kHasShortSums<W::kBits>) {
      add_short_sums<q, kEnd>(source, x, dots, ahead);
    } else if constexpr (kHasMatrices) {
      add_matrices<q, kEnd>(source, x, dots, ahead);
    } else if constexpr (q < kEnd) {
      ahead.template ask<q>();
      decltype(quad_weights(source.template bytes<q>(kFirstPart))) w[P];
#pragma GCC unroll 8
      for (std::size_t p = 0; p < P; ++p) {
        w[p] = quad_weights(source.template bytes<q>(kFirstPart + p));
      }
#pragma GCC unroll 8
      for (std::size_t r = 0; r < R; ++r) {
        const auto activations = load_quad(x[r] + kQuadsOffset + q * kQuadBytes);
#pragma GCC unroll 8
        for (std::size_t p = 0; p < P; ++p) dots[r][p] = dot(dots[r][p], w[p], activations);
      }
      add_quads<q + 1, kEnd>(source, x, dots, ahead);
    }
  }

#if defined(EDGEDRAFT_SHORT_SUMS)
  // Quads whose products fit into 2^15 - 1, each at most 127 times the largest weight.
  static constexpr int kLargestWeight = W::kBits == 8 ? 128 : (1 << W::kBits) - 1;
  static constexpr int kShortQuads = 0x7FFF / (kShortProducts * 127 * kLargestWeight);

  template <int q, int kEnd, class Ahead>
  static EDGEDRAFT_INLINE void add_short_sums(const Source& source, const std::byte* const (&x)[R],
                                              IntPart (&dots)[R][P], Ahead& ahead) {
    if constexpr (q < kEnd) {
      constexpr int kNext = static_cast<int>(smaller(q + kShortQuads, kEnd));
      ShortSums sums[R][P];
      add_in_short<q, kNext, true>(source, x, sums, ahead);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
        for (std::size_t p = 0; p < P; ++p) dots[r][p] += widened(sums[r][p]);
      }
      add_short_sums<kNext, kEnd>(source, x, dots, ahead);
    }
  }
  template <int q, int kEnd, bool kIsFirst, class Ahead>
  static EDGEDRAFT_INLINE void add_in_short(const Source& source, const std::byte* const (&x)[R],
                                            ShortSums (&sums)[R][P], Ahead& ahead) {
    if constexpr (q < kEnd) {
      ahead.template ask<q>();
      UintPart w[P];
#pragma GCC unroll 8
      for (std::size_t p = 0; p < P; ++p) w[p] = source.template bytes<q>(kFirstPart + p);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < R; ++r) {
        const auto activations = load_quad(x[r] + kQuadsOffset + q * kQuadBytes);
#pragma GCC unroll 8
        for (std::size_t p = 0; p < P; ++p) {
          if constexpr (kIsFirst) {
            sums[r][p] = first_products(w[p], activations);
          } else {
            add_products(sums[r][p], w[p], activations);
          }
        }
      }
      add_in_short<q + 1, kEnd, false>(source, x, sums, ahead);
    }
  }
#endif

  // Two rows per instruction; of an odd count, the last one is processed twice.
#if defined(EDGEDRAFT_MATRIX_INSTRUCTION)
  static constexpr bool kHasMatrices = R > 1;
  static constexpr std::size_t kRowPairs = (R + 1) / 2;

  template <int q, int kEnd, class Ahead>
  static EDGEDRAFT_INLINE void add_matrices(const Source& source, const std::byte* const (&x)[R],
                                            IntPart (&dots)[R][P], Ahead& ahead) {
    MatrixSums sums[kRowPairs][P];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kRowPairs; ++i) {
#pragma GCC unroll 8
      for (std::size_t p = 0; p < P; ++p) sums[i][p] = MatrixSums{};
    }
    add_to_matrices<q, kEnd>(source, x, sums, ahead);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (std::size_t p = 0; p < P; ++p) {
        const MatrixSums& rows = sums[r / 2][p];
        dots[r][p] += r % 2 == 0 ? rows.row() : rows.next_row();
      }
    }
  }
  template <int q, int kEnd, class Ahead>
  static EDGEDRAFT_INLINE void add_to_matrices(const Source& source, const std::byte* const (&x)[R],
                                               MatrixSums (&sums)[kRowPairs][P], Ahead& ahead) {
    if constexpr (q < kEnd) {
      ahead.template ask<q>();
      ahead.template ask<q + 1>();
      PairsOfOutputs w[P];
#pragma GCC unroll 8
      for (std::size_t p = 0; p < P; ++p) {
        w[p] = pairs_of_outputs(source.template bytes<q>(kFirstPart + p),
                                source.template bytes<q + 1>(kFirstPart + p));
      }
      constexpr std::size_t kAt = kQuadsOffset + q * kQuadBytes;
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kRowPairs; ++i) {
        const auto rows = pair_of_rows(x[2 * i] + kAt, x[smaller(2 * i + 1, R - 1)] + kAt);
#pragma GCC unroll 8
        for (std::size_t p = 0; p < P; ++p) sums[i][p].add(rows, w[p]);
      }
      add_to_matrices<q + 2, kEnd>(source, x, sums, ahead);
    }
  }
#else
  static constexpr bool kHasMatrices = false;
#endif

  // A start is -128 times the sum of the activations, so a minimum times that sum is subtracted.
  static EDGEDRAFT_INLINE void add_minima(const Source& source, const std::byte* const (&x)[R],
                                          Part (&scaled)[R][P]) {
    for (std::size_t half = 0; half < W::kHalves; ++half) {
      Part minimum[P];
#pragma GCC unroll 8
      for (std::size_t p = 0; p < P; ++p) {
        minimum[p] = source.minimum(kFirstPart + p, half) * all_part(1.0f / 128);
      }
#pragma GCC unroll 8
      for (std::size_t r = 0; r < R; ++r) {
        const Part start = __builtin_convertvector(all_int(start_of(x[r], W::kHalves, half)), Part);
#pragma GCC unroll 8
        for (std::size_t p = 0; p < P; ++p) scaled[r][p] = fma(start, minimum[p], scaled[r][p]);
      }
    }
  }
};

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
