#pragma once

#include "kernels/cpu/simd.h"

// Products of weights and activations of eight bits, four at a time, added up exactly in int32: the
// arithmetic under quantised weights. Instructions take unsigned weights and signed activations. A
// register holds kPartLanes outputs.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// A row of quantised activations: for each block of 32, -128 times the sum of its numbers and of
// those of its first half (with which sums over weights that are 128 too large begin), and the
// numbers; at last a scale for every 128.
inline constexpr std::size_t kBlock = 32;
inline constexpr std::size_t kBlocksAScale = 4;

#if (defined(__AVX512F__) && defined(__AVX512VNNI__)) || defined(__AVXVNNI__)
#define EDGEDRAFT_DOT_INSTRUCTION 1
#endif
#if defined(EDGEDRAFT_DOT_INSTRUCTION) || defined(EDGEDRAFT_SHORT_SUMS)
// As the instructions want them: four neighbours in four bytes.
inline constexpr std::size_t kQuadBytes = 4;
#else
// In 16 bits and split, because pairs of 16-bit products add up without saturation: elements 0 and
// 2, then 1 and 3.
inline constexpr std::size_t kQuadBytes = 8;
#endif

// Sums of 16 bits saturate with weights of eight. Of weights with six bits or fewer a few products
// can be added up in them before they are widened: half as many instructions.
#if defined(EDGEDRAFT_SHORT_SUMS)
template <int kBits>
inline constexpr bool kHasShortSums = kBits <= 6;
#else
template <int kBits>
inline constexpr bool kHasShortSums = false;
#endif
// Magnitudes of eight bits, 128 at most, leave room for two products: those weights keep their
// signs, which the activations take over.
template <int kBits>
inline constexpr bool kHasSigns = kBits == 8 && kHasSignedBytes;

inline constexpr std::size_t kStartBytes = 2 * sizeof(std::int32_t);

// Of a whole block, or of one half of it. Unsigned inside: what is not finite leaves any bits.
EDGEDRAFT_INLINE std::int32_t start_of(const std::byte* block, std::size_t halves,
                                       std::size_t half) {
  const auto whole = load_bytes<std::uint32_t>(block);
  if (halves == 1) return static_cast<std::int32_t>(whole);
  const auto first = load_bytes<std::uint32_t>(block + sizeof whole);
  return static_cast<std::int32_t>(half == 0 ? first : whole - first);
}

constexpr std::size_t scales_offset(std::size_t cols);

struct ActivationRow {
  static constexpr std::size_t kBlockBytes = kStartBytes + kBlock / 4 * kQuadBytes;

  const std::byte* block;
  const float* scale;

  static EDGEDRAFT_INLINE ActivationRow at(const std::byte* row, std::size_t cols) {
    return {row, reinterpret_cast<const float*>(row + scales_offset(cols))};
  }
  EDGEDRAFT_INLINE ActivationRow from_block(std::size_t first) const {
    return {block + first * kBlockBytes, scale + first / kBlocksAScale};
  }
};

constexpr std::size_t scales_offset(std::size_t cols) {
  return cols / kBlock * ActivationRow::kBlockBytes;
}

EDGEDRAFT_INLINE UintPart all_uint(std::uint32_t x) {
  return x - UintPart{};
}
EDGEDRAFT_INLINE IntPart all_int(std::int32_t x) {
  return x - IntPart{};
}

#if defined(EDGEDRAFT_DOT_INSTRUCTION)

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

EDGEDRAFT_INLINE IntPart load_quad(const std::byte* from) {
  return all_int(load_bytes<std::int32_t>(from));
}
// Keeps the compiler from adding up in another order, which wants more registers than there are.
EDGEDRAFT_INLINE void settle(ShortSums& sums) {
  asm("" : "+x"(sums));
}
// Of the products of neighbours.
EDGEDRAFT_INLINE ShortSums short_sums(UintPart weights, IntPart activations) {
  return reinterpret_cast<ShortSums>(_mm256_maddubs_epi16(reinterpret_cast<__m256i>(weights),
                                                          reinterpret_cast<__m256i>(activations)));
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
