#pragma once

#include "kernels/cpu/simd.h"

// Dot products of 8-bit weights and activations, four at a time, summed exactly in int32. x86
// instructions multiply unsigned weights by signed activations; both operands of Arm's are signed.
// A register holds kPartLanes outputs.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// Layout of a row of quantized activations. Per block of 32: -128 times the sums of the block and
// of its first half, the scale, then the elements. These sums are initial values for weights that
// are stored 128 too large.
inline constexpr std::size_t kBlock = 32;

#if (defined(__AVX512F__) && defined(__AVX512VNNI__)) || defined(__AVXVNNI__) || \
    defined(__ARM_FEATURE_DOTPROD)
#define EDGEDRAFT_DOT_INSTRUCTION 1
#endif
#if defined(EDGEDRAFT_DOT_INSTRUCTION) || defined(EDGEDRAFT_SHORT_SUMS)
// In instruction order: four neighbours in four bytes.
inline constexpr std::size_t kQuadBytes = 4;
#else
// In 16 bits and split, since pairs of 16-bit products add without saturation: elements 0 and 2,
// then 1 and 3.
inline constexpr std::size_t kQuadBytes = 8;
#endif

// With weights of at most six bits, a few products fit into 16-bit sums before widening, which
// halves the instructions. With eight bits NEON, which does not add neighbours, fits two products;
// other sets fit none.
#if defined(EDGEDRAFT_SHORT_SUMS) && defined(__aarch64__)
template <int kBits>
inline constexpr bool kHasShortSums = true;
#elif defined(EDGEDRAFT_SHORT_SUMS)
template <int kBits>
inline constexpr bool kHasShortSums = kBits <= 6;
#else
template <int kBits>
inline constexpr bool kHasShortSums = false;
#endif
// Weights of at most six bits stay in the low bits of their bytes in two cases: 16-bit sums need
// small weights, or the instructions treat the top bit as a sign.
#if defined(EDGEDRAFT_SHORT_SUMS) || defined(__aarch64__)
template <int kBits>
inline constexpr bool kIsLow = kBits <= 6;
#else
template <int kBits>
inline constexpr bool kIsLow = false;
#endif
// Magnitudes of eight bits, at most 128, leave room for two products: those weights keep their
// signs, which are moved to the activations.
template <int kBits>
inline constexpr bool kHasSigns = kBits == 8 && kHasSignedBytes;

inline constexpr std::size_t kScaleOffset = 2 * sizeof(std::int32_t);
inline constexpr std::size_t kQuadsOffset = kScaleOffset + sizeof(float);
inline constexpr std::size_t kActivationBlockBytes = kQuadsOffset + kBlock / 4 * kQuadBytes;

// The start of a whole block, or of one half. Unsigned inside: non-finite input leaves arbitrary
// bits.
EDGEDRAFT_INLINE std::int32_t start_of(const std::byte* block, std::size_t halves,
                                       std::size_t half) {
  const auto whole = load_bytes<std::uint32_t>(block);
  if (halves == 1) return static_cast<std::int32_t>(whole);
  const auto first = load_bytes<std::uint32_t>(block + sizeof whole);
  return static_cast<std::int32_t>(half == 0 ? first : whole - first);
}

EDGEDRAFT_INLINE float scale_of(const std::byte* block) {
  return load_bytes<float>(block + kScaleOffset);
}

EDGEDRAFT_INLINE UintPart all_uint(std::uint32_t x) {
  return x - UintPart{};
}
EDGEDRAFT_INLINE IntPart all_int(std::int32_t x) {
  return x - IntPart{};
}

#if defined(__aarch64__)

EDGEDRAFT_INLINE int8x16_t signed_bytes(UintPart bytes) {
  return reinterpret_cast<int8x16_t>(bytes);
}
EDGEDRAFT_INLINE int8x16_t load_quad(const std::byte* from) {
  return reinterpret_cast<int8x16_t>(all_int(load_bytes<std::int32_t>(from)));
}

#if defined(EDGEDRAFT_DOT_INSTRUCTION)

using QuadWeights = int8x16_t;
using QuadActivations = int8x16_t;
EDGEDRAFT_INLINE QuadWeights quad_weights(UintPart bytes) {
  return signed_bytes(bytes);
}
// sum + the four products of each output.
EDGEDRAFT_INLINE IntPart dot(IntPart sum, QuadWeights w, QuadActivations x) {
  return vdotq_s32(sum, w, x);
}

#else

// Separate sums per product: those of outputs 0 and 1, then of 2 and 3.
struct ShortSums {
  int16x8_t low;
  int16x8_t high;
};
inline constexpr int kShortProducts = 1;
EDGEDRAFT_INLINE ShortSums first_products(UintPart weights, int8x16_t activations) {
  const int8x16_t w = signed_bytes(weights);
  return {vmull_s8(vget_low_s8(w), vget_low_s8(activations)), vmull_high_s8(w, activations)};
}
EDGEDRAFT_INLINE void add_products(ShortSums& sums, UintPart weights, int8x16_t activations) {
  const int8x16_t w = signed_bytes(weights);
  sums.low = vmlal_s8(sums.low, vget_low_s8(w), vget_low_s8(activations));
  sums.high = vmlal_high_s8(sums.high, w, activations);
}
EDGEDRAFT_INLINE IntPart widened(const ShortSums& sums) {
  return vpaddq_s32(vpaddlq_s16(sums.low), vpaddlq_s16(sums.high));
}

#endif

#if defined(__ARM_FEATURE_MATMUL_INT8)
#define EDGEDRAFT_MATRIX_INSTRUCTION 1

// Eight inputs of two outputs or rows.
struct PairsOfOutputs {
  int8x16_t first;   // outputs 0 and 1 of a register
  int8x16_t second;  // 2 and 3
};
EDGEDRAFT_INLINE PairsOfOutputs pairs_of_outputs(UintPart quad, UintPart next_quad) {
  return {signed_bytes(__builtin_shufflevector(quad, next_quad, 0, 4, 1, 5)),
          signed_bytes(__builtin_shufflevector(quad, next_quad, 2, 6, 3, 7))};
}
EDGEDRAFT_INLINE int8x16_t pair_of_rows(const std::byte* row, const std::byte* next_row) {
  return vcombine_s8(load_bytes<int8x8_t>(row), load_bytes<int8x8_t>(next_row));
}
// Two rows by two outputs, row by row: outputs 0 and 1, then 2 and 3.
struct MatrixSums {
  IntPart first;
  IntPart second;

  EDGEDRAFT_INLINE void add(int8x16_t rows, const PairsOfOutputs& w) {
    first = vmmlaq_s32(first, rows, w.first);
    second = vmmlaq_s32(second, rows, w.second);
  }
  EDGEDRAFT_INLINE IntPart row() const {
    return __builtin_shufflevector(first, second, 0, 1, 4, 5);
  }
  EDGEDRAFT_INLINE IntPart next_row() const {
    return __builtin_shufflevector(first, second, 2, 3, 6, 7);
  }
};

#endif

#elif defined(EDGEDRAFT_DOT_INSTRUCTION)

struct QuadWeights {
  UintPart bytes;
};
struct QuadActivations {
  IntPart quad;
};
EDGEDRAFT_INLINE QuadWeights quad_weights(UintPart bytes) {
  return {bytes};
}
EDGEDRAFT_INLINE QuadActivations load_quad(const std::byte* from) {
  return {all_int(load_bytes<std::int32_t>(from))};
}
// sum + the four products of each output.
EDGEDRAFT_INLINE IntPart dot(IntPart sum, const QuadWeights& w, const QuadActivations& x) {
#if defined(__AVX512F__)
  return reinterpret_cast<IntPart>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum),
                                                       reinterpret_cast<__m512i>(w.bytes),
                                                       reinterpret_cast<__m512i>(x.quad)));
#else
  return reinterpret_cast<IntPart>(_mm256_dpbusd_avx_epi32(reinterpret_cast<__m256i>(sum),
                                                           reinterpret_cast<__m256i>(w.bytes),
                                                           reinterpret_cast<__m256i>(x.quad)));
#endif
}

#elif defined(EDGEDRAFT_SHORT_SUMS)

typedef std::int16_t ShortSums __attribute__((vector_size(kPartLanes * 4)));
inline constexpr int kShortProducts = 2;

EDGEDRAFT_INLINE IntPart load_quad(const std::byte* from) {
  return all_int(load_bytes<std::int32_t>(from));
}
// Keeps the compiler from reordering the additions, which would need more registers than exist.
EDGEDRAFT_INLINE void settle(ShortSums& sums) {
  asm("" : "+x"(sums));
}
// Sums of the products of neighbours.
EDGEDRAFT_INLINE ShortSums short_sums(UintPart weights, IntPart activations) {
  return reinterpret_cast<ShortSums>(_mm256_maddubs_epi16(reinterpret_cast<__m256i>(weights),
                                                          reinterpret_cast<__m256i>(activations)));
}
EDGEDRAFT_INLINE ShortSums first_products(UintPart weights, IntPart activations) {
  ShortSums sums = short_sums(weights, activations);
  settle(sums);
  return sums;
}
EDGEDRAFT_INLINE void add_products(ShortSums& sums, UintPart weights, IntPart activations) {
  sums += short_sums(weights, activations);
  settle(sums);
}
EDGEDRAFT_INLINE IntPart widened(ShortSums sums) {
  return reinterpret_cast<IntPart>(
      _mm256_madd_epi16(reinterpret_cast<__m256i>(sums), _mm256_set1_epi16(1)));
}

struct QuadWeights {
  UintPart numbers;
  UintPart magnitudes;
};
using QuadActivations = IntPart;
EDGEDRAFT_INLINE QuadWeights quad_weights(UintPart bytes) {
  return {bytes, reinterpret_cast<UintPart>(_mm256_abs_epi8(reinterpret_cast<__m256i>(bytes)))};
}
EDGEDRAFT_INLINE IntPart dot(IntPart sum, const QuadWeights& w, IntPart x) {
  const auto with_sign = reinterpret_cast<IntPart>(
      _mm256_sign_epi8(reinterpret_cast<__m256i>(x), reinterpret_cast<__m256i>(w.numbers)));
  return sum + widened(short_sums(w.magnitudes, with_sign));
}

#elif defined(__SSE2__)

struct QuadWeights {
  UintPart even;
  UintPart odd;
};
struct QuadActivations {
  IntPart even;
  IntPart odd;
};
EDGEDRAFT_INLINE QuadWeights quad_weights(UintPart bytes) {
  typedef std::uint16_t Pairs __attribute__((vector_size(kPartLanes * 4)));
  const auto pairs = reinterpret_cast<Pairs>(bytes);
  return {reinterpret_cast<UintPart>(pairs & 0xFF), reinterpret_cast<UintPart>(pairs >> 8)};
}
EDGEDRAFT_INLINE QuadActivations load_quad(const std::byte* from) {
  return {all_int(load_bytes<std::int32_t>(from)), all_int(load_bytes<std::int32_t>(from + 4))};
}
EDGEDRAFT_INLINE IntPart pair_sums(UintPart a, IntPart b) {
#if defined(__AVX512F__)
  return reinterpret_cast<IntPart>(
      _mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<IntPart>(
      _mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
  return reinterpret_cast<IntPart>(
      _mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#endif
}
EDGEDRAFT_INLINE IntPart dot(IntPart sum, const QuadWeights& w, const QuadActivations& x) {
  return sum + (pair_sums(w.even, x.even) + pair_sums(w.odd, x.odd));
}

#else

struct QuadWeights {
  UintPart quad;
};
struct QuadActivations {
  std::int16_t numbers[4];  // in the order 0, 2, 1, 3
};
EDGEDRAFT_INLINE QuadWeights quad_weights(UintPart bytes) {
  return {bytes};
}
EDGEDRAFT_INLINE QuadActivations load_quad(const std::byte* from) {
  return load_bytes<QuadActivations>(from);
}
EDGEDRAFT_INLINE IntPart dot(IntPart sum, const QuadWeights& w, const QuadActivations& x) {
  const auto byte = [&](int shift) { return reinterpret_cast<IntPart>(w.quad >> shift & 0xFFu); };
  return sum + byte(0) * x.numbers[0] + byte(16) * x.numbers[1] + byte(8) * x.numbers[2] +
         byte(24) * x.numbers[3];
}

#endif

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
