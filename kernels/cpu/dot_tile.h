#pragma once

#include "kernels/cpu/weights.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// Largest tile, and the columns per row count: as many sums as fit into registers with the
// operands, and at least eight registers of them, which hides the fma latency.
#if defined(__AVX512F__)
inline constexpr std::size_t kTileRowsMax = 6;
constexpr std::size_t tile_columns(std::size_t rows) {
  return rows == 1 ? 8 : 4;
}
#elif defined(__AVX__) || defined(__aarch64__)
inline constexpr std::size_t kTileRowsMax = 3;
constexpr std::size_t tile_columns(std::size_t rows) {
  return rows == 1 ? 4 : 2;
}
#else
inline constexpr std::size_t kTileRowsMax = 1;
constexpr std::size_t tile_columns(std::size_t) {
  return 2;
}
#endif
inline constexpr std::size_t kTileColumnsMax = 8;

// R rows of activations times C rows of a weight, elements first..first+count-1 of both.
template <class W, std::size_t R, std::size_t C>
struct DotTile {
  const float* x[R];
  const std::byte* w[C];
  std::size_t first;  // a multiple of a block
  std::size_t count;

  // Loops are unrolled, so this stays in registers.
  struct Sums {
    Part part[R][C][kParts];

    // Sum (r, c) is 16 floats at from + r * row_stride + 16 * c.
    EDGEDRAFT_INLINE void load_from(const float* from, std::size_t row_stride) {
#pragma GCC unroll 8
      for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
        for (std::size_t c = 0; c < C; ++c) {
#pragma GCC unroll 8
          for (std::size_t p = 0; p < kParts; ++p) {
            part[r][c][p] = load_part(from + r * row_stride + c * kLanes + p * kPartLanes);
          }
        }
      }
    }
    EDGEDRAFT_INLINE void store_to(float* to, std::size_t row_stride) const {
#pragma GCC unroll 8
      for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
        for (std::size_t c = 0; c < C; ++c) {
#pragma GCC unroll 8
          for (std::size_t p = 0; p < kParts; ++p) {
            store_part(to + r * row_stride + c * kLanes + p * kPartLanes, part[r][c][p]);
          }
        }
      }
    }
    EDGEDRAFT_INLINE void clear() {
#pragma GCC unroll 8
      for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
        for (std::size_t c = 0; c < C; ++c) {
#pragma GCC unroll 8
          for (std::size_t p = 0; p < kParts; ++p) part[r][c][p] = Part{};
        }
      }
    }
  };

  // Adds the products lane by lane, in element order.
  EDGEDRAFT_INLINE void add_to(Sums& sums) const {
    std::size_t k = 0;
    for (; k + W::kStep <= count; k += W::kStep) {
      typename W::Group group[C];
#pragma GCC unroll 8
      for (std::size_t c = 0; c < C; ++c) group[c] = W::group(w[c], first + k);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < W::kStep; i += kPartLanes) {
        Part weight[C];
#pragma GCC unroll 8
        for (std::size_t c = 0; c < C; ++c) weight[c] = W::part(group[c], i);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < R; ++r) {
          const Part activation = load_part(x[r] + first + k + i);
#pragma GCC unroll 8
          for (std::size_t c = 0; c < C; ++c) {
            Part& to = sums.part[r][c][i / kPartLanes % kParts];
            to = fma(activation, weight[c], to);
          }
        }
      }
    }
    if (k < count) add_tail_to(sums, k);
  }

  // The last, incomplete group: zeros fill the lanes, and adding 0 * 0 changes no sum.
  EDGEDRAFT_INLINE void add_tail_to(Sums& sums, std::size_t k) const {
#pragma GCC unroll 8
    for (std::size_t c = 0; c < C; ++c) {
      const Lanes weight = load_tail<W>(w[c], first + k, count - k);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < R; ++r) {
        const Lanes activation = load_first(x[r] + first + k, count - k);
#pragma GCC unroll 8
        for (std::size_t p = 0; p < kParts; ++p) {
          sums.part[r][c][p] = fma(activation.part[p], weight.part[p], sums.part[r][c][p]);
        }
      }
    }
  }
};

// totals[r * C + c] = the sum over the lanes.
template <std::size_t R, std::size_t C, class Sums>
EDGEDRAFT_INLINE void total(const Sums& sums_of, float* totals) {
  static_assert(C % 2 == 0);
  const auto lanes = [&](std::size_t i) {
    Lanes v;
#pragma GCC unroll 8
    for (std::size_t p = 0; p < kParts; ++p) v.part[p] = sums_of.part[i / C][i % C][p];
    return v;
  };
#pragma GCC unroll 8
  for (std::size_t i = 0; i < R * C; i += 4) {
    if (i + 4 <= R * C) {
      const Quad q = sums(lanes(i), lanes(i + 1), lanes(i + 2), lanes(i + 3));
      std::memcpy(totals + i, &q, sizeof q);
    } else {
      const Quad q = sums(lanes(i), lanes(i + 1), lanes(i), lanes(i + 1));
      std::memcpy(totals + i, &q, 2 * sizeof(float));
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
