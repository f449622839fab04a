#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/kernels.h"

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// Sixteen lanes of float32 on any instruction set: one register of AVX-512, two of AVX2, four of
// SSE2 or NEON. The lane count is fixed, so sums are equal everywhere except for fused rounding.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

#define EDGEDRAFT_INLINE inline __attribute__((always_inline))

inline constexpr std::size_t kLanes = 16;
#if defined(__AVX512F__)
inline constexpr std::size_t kPartLanes = 16;
#elif defined(__AVX__)
inline constexpr std::size_t kPartLanes = 8;
#else
inline constexpr std::size_t kPartLanes = 4;
#endif
inline constexpr std::size_t kParts = kLanes / kPartLanes;

// One register.
typedef float Part __attribute__((vector_size(kPartLanes * 4)));
typedef std::int32_t IntPart __attribute__((vector_size(kPartLanes * 4)));
typedef std::uint32_t UintPart __attribute__((vector_size(kPartLanes * 4)));
typedef std::uint16_t ShortPart __attribute__((vector_size(kPartLanes * 2)));
typedef float Quad __attribute__((vector_size(16)));
#if defined(__AVX__)
typedef float Octet __attribute__((vector_size(32)));
#endif

struct Lanes {
  Part part[kParts];
};

inline constexpr std::size_t kCacheLineBytes = 64;

constexpr std::size_t round_up(std::size_t n, std::size_t step) {
  return (n + step - 1) / step * step;
}
constexpr std::size_t smaller(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}

// --- one register ---

template <class Vector>
EDGEDRAFT_INLINE Vector load_bytes(const void* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

EDGEDRAFT_INLINE Part load_part(const float* from) {
  return load_bytes<Part>(from);
}
EDGEDRAFT_INLINE void store_part(float* to, Part v) {
  std::memcpy(to, &v, sizeof v);
}
EDGEDRAFT_INLINE Part all_part(float x) {
  return x - Part{};
}

// a * b + c, rounded once if the instruction set has fused multiply-add.
EDGEDRAFT_INLINE Part fma(Part a, Part b, Part c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
  return vfmaq_f32(c, a, b);
#else
  return a * b + c;
#endif
}

EDGEDRAFT_INLINE float half_to_float(std::uint16_t half) {
#if defined(__F16C__)
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
#else
  // 2^112 moves the exponent from bias 15 to bias 127 and makes subnormals normal.
  const std::uint32_t magnitude = (half & 0x7FFFu) << 13;
  float value;
  std::memcpy(&value, &magnitude, sizeof value);
  value *= 0x1p112f;
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((half & 0x7C00u) == 0x7C00u) bits |= 0x7F800000u;
  bits |= (half & 0x8000u) << 16;
  std::memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

// One register of float16, bfloat16 or int8 elements. The masked AVX-512 forms avoid a GCC 12
// warning: its header starts the unmasked ones from an undefined register.
EDGEDRAFT_INLINE Part load_halves(const std::byte* from) {
#if defined(__AVX512F__)
  return _mm512_maskz_cvtph_ps(0xFFFF, load_bytes<__m256i>(from));
#elif defined(__F16C__)
  return _mm256_cvtph_ps(load_bytes<__m128i>(from));
#elif defined(__aarch64__)
  return vcvt_f32_f16(load_bytes<float16x4_t>(from));
#else
  const UintPart half = __builtin_convertvector(load_bytes<ShortPart>(from), UintPart);
  const Part scaled = reinterpret_cast<Part>((half & 0x7FFFu) << 13) * 0x1p112f;
  const UintPart special = reinterpret_cast<UintPart>((half & 0x7C00u) == 0x7C00u) & 0x7F800000u;
  return reinterpret_cast<Part>(reinterpret_cast<UintPart>(scaled) | special |
                                (half & 0x8000u) << 16);
#endif
}

// Nearest float16 values, ties to even.
EDGEDRAFT_INLINE void to_halves(Part v, std::uint16_t* to) {
#if defined(__AVX512F__)
  const __m256i halves = _mm512_maskz_cvtps_ph(0xFFFF, v, _MM_FROUND_TO_NEAREST_INT);
  std::memcpy(to, &halves, sizeof halves);
#elif defined(__F16C__)
  const __m128i halves = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
  std::memcpy(to, &halves, sizeof halves);
#elif defined(__aarch64__)
  const float16x4_t halves = vcvt_f16_f32(v);
  std::memcpy(to, &halves, sizeof halves);
#else
  for (std::size_t l = 0; l < kPartLanes; ++l) {
    const float x = v[l];
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    std::uint32_t half;
    if (magnitude > 0x7F800000u) {
      half = 0x7E00u;  // NaN
    } else if (magnitude >= 0x477FF000u) {
      half = 0x7C00u;
    } else if (magnitude < 0x38800000u) {
      // Below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
      float shifted;
      std::memcpy(&shifted, &magnitude, sizeof shifted);
      shifted += 0.5f;
      std::memcpy(&half, &shifted, sizeof half);
      half -= 0x3F000000u;
    } else {
      half = (magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
    }
    to[l] = static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | half);
  }
#endif
}

EDGEDRAFT_INLINE Part load_bfloats(const std::byte* from) {
#if defined(__AVX512F__)
  const auto bits =
      reinterpret_cast<UintPart>(_mm512_maskz_cvtepu16_epi32(0xFFFF, load_bytes<__m256i>(from)));
#elif defined(__AVX2__)
  const auto bits = reinterpret_cast<UintPart>(_mm256_cvtepu16_epi32(load_bytes<__m128i>(from)));
#else
  const UintPart bits = __builtin_convertvector(load_bytes<ShortPart>(from), UintPart);
#endif
  return reinterpret_cast<Part>(bits << 16);
}

EDGEDRAFT_INLINE Part load_int8s(const std::byte* from) {
#if defined(__AVX512F__)
  const auto numbers =
      reinterpret_cast<IntPart>(_mm512_maskz_cvtepi8_epi32(0xFFFF, load_bytes<__m128i>(from)));
#elif defined(__AVX2__)
  const auto eight = _mm_cvtsi64_si128(load_bytes<std::int64_t>(from));
  const auto numbers = reinterpret_cast<IntPart>(_mm256_cvtepi8_epi32(eight));
#elif defined(__aarch64__)
  const int8x8_t four = vcreate_s8(load_bytes<std::uint32_t>(from));
  const IntPart numbers = vmovl_s16(vget_low_s16(vmovl_s8(four)));
#else
  const auto four = load_bytes<std::uint32_t>(from);
  const UintPart tops = {four << 24, four << 16, four << 8, four};
  const IntPart numbers = reinterpret_cast<IntPart>(tops) >> 24;
#endif
  return __builtin_convertvector(numbers, Part);
}

// One register of bytes, as values from 0 to 255.
EDGEDRAFT_INLINE UintPart load_uint8s(const std::byte* from) {
#if defined(__AVX512F__)
  return reinterpret_cast<UintPart>(_mm512_maskz_cvtepu8_epi32(0xFFFF, load_bytes<__m128i>(from)));
#elif defined(__AVX2__)
  const auto eight = _mm_cvtsi64_si128(load_bytes<std::int64_t>(from));
  return reinterpret_cast<UintPart>(_mm256_cvtepu8_epi32(eight));
#elif defined(__aarch64__)
  const uint8x8_t four = vcreate_u8(load_bytes<std::uint32_t>(from));
  return vmovl_u16(vget_low_u16(vmovl_u8(four)));
#else
  const auto four = load_bytes<std::uint32_t>(from);
  return UintPart{four, four >> 8, four >> 16, four >> 24} & 0xFFu;
#endif
}

// For values below 2^31.
EDGEDRAFT_INLINE Part to_floats(UintPart numbers) {
  return __builtin_convertvector(reinterpret_cast<IntPart>(numbers), Part);
}

// Replaces every byte, 0 to 15, by the one at that index.
EDGEDRAFT_INLINE UintPart look_up(const std::uint8_t (&table)[16], UintPart indices) {
#if defined(__AVX512F__)
  const auto all = _mm512_maskz_broadcast_i32x4(0xFFFF, load_bytes<__m128i>(table));
  return reinterpret_cast<UintPart>(_mm512_shuffle_epi8(all, reinterpret_cast<__m512i>(indices)));
#elif defined(__AVX2__)
  const auto all = _mm256_broadcastsi128_si256(load_bytes<__m128i>(table));
  return reinterpret_cast<UintPart>(_mm256_shuffle_epi8(all, reinterpret_cast<__m256i>(indices)));
#elif defined(__aarch64__)
  return reinterpret_cast<UintPart>(
      vqtbl1q_u8(load_bytes<uint8x16_t>(table), reinterpret_cast<uint8x16_t>(indices)));
#else
  std::uint8_t bytes[sizeof indices];
  std::memcpy(bytes, &indices, sizeof bytes);
  for (std::uint8_t& byte : bytes) byte = table[byte];
  return load_bytes<UintPart>(bytes);
#endif
}

// --- sixteen lanes ---

EDGEDRAFT_INLINE Lanes load(const float* from) {
  Lanes v;
  for (std::size_t p = 0; p < kParts; ++p) v.part[p] = load_part(from + p * kPartLanes);
  return v;
}
// The first `count` <= 16 of them, then zeros.
EDGEDRAFT_INLINE Lanes load_first(const float* from, std::size_t count) {
  float padded[kLanes] = {};
  std::memcpy(padded, from, count * sizeof(float));
  return load(padded);
}
EDGEDRAFT_INLINE void store(float* to, const Lanes& v) {
  for (std::size_t p = 0; p < kParts; ++p) store_part(to + p * kPartLanes, v.part[p]);
}
EDGEDRAFT_INLINE void store_first(float* to, const Lanes& v, std::size_t count) {
  float padded[kLanes];
  store(padded, v);
  std::memcpy(to, padded, count * sizeof(float));
}
EDGEDRAFT_INLINE Lanes all(float x) {
  Lanes v;
  for (Part& part : v.part) part = all_part(x);
  return v;
}
EDGEDRAFT_INLINE Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) {
  Lanes v;
  for (std::size_t p = 0; p < kParts; ++p) v.part[p] = fma(a.part[p], b.part[p], c.part[p]);
  return v;
}
EDGEDRAFT_INLINE Lanes operator+(const Lanes& a, const Lanes& b) {
  Lanes v;
  for (std::size_t p = 0; p < kParts; ++p) v.part[p] = a.part[p] + b.part[p];
  return v;
}
EDGEDRAFT_INLINE Lanes operator-(const Lanes& a, const Lanes& b) {
  Lanes v;
  for (std::size_t p = 0; p < kParts; ++p) v.part[p] = a.part[p] - b.part[p];
  return v;
}
EDGEDRAFT_INLINE Lanes operator*(const Lanes& a, const Lanes& b) {
  Lanes v;
  for (std::size_t p = 0; p < kParts; ++p) v.part[p] = a.part[p] * b.part[p];
  return v;
}
EDGEDRAFT_INLINE Lanes operator/(const Lanes& a, const Lanes& b) {
  Lanes v;
  for (std::size_t p = 0; p < kParts; ++p) v.part[p] = a.part[p] / b.part[p];
  return v;
}
// Lane by lane; `b` if either is NaN.
EDGEDRAFT_INLINE Lanes larger(const Lanes& a, const Lanes& b) {
  Lanes v;
  for (std::size_t p = 0; p < kParts; ++p)
    v.part[p] = a.part[p] > b.part[p] ? a.part[p] : b.part[p];
  return v;
}

#if defined(__AVX512F__)
// Lanes first..first+7 of a, then of b.
template <int first>
EDGEDRAFT_INLINE Part eight_of_each(Part a, Part b) {
  return __builtin_shufflevector(a, b, first, first + 1, first + 2, first + 3, first + 4, first + 5,
                                 first + 6, first + 7, first + 16, first + 17, first + 18,
                                 first + 19, first + 20, first + 21, first + 22, first + 23);
}
#endif

// Lane l holds lane l + lane l+8 + (lane l+4 + lane l+12), l < 4.
EDGEDRAFT_INLINE Quad quarter_sums(const Lanes& v) {
#if defined(__AVX__)
#if defined(__AVX512F__)
  const Part all16 = v.part[0];
  const Octet eight = __builtin_shufflevector(all16, all16, 0, 1, 2, 3, 4, 5, 6, 7) +
                      __builtin_shufflevector(all16, all16, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  const Octet eight = v.part[0] + v.part[1];
#endif
  return __builtin_shufflevector(eight, eight, 0, 1, 2, 3) +
         __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
#else
  return (v.part[0] + v.part[2]) + (v.part[1] + v.part[3]);
#endif
}

// The sums over the lanes of four vectors, each by the same tree: distance 8, 4, 2, 1.
EDGEDRAFT_INLINE Quad sums(const Lanes& a, const Lanes& b, const Lanes& c, const Lanes& d) {
#if defined(__AVX512F__)
  // Eight lanes of each of two, then four of each of four: fewer shuffles than vector by vector.
  const Part ab = eight_of_each<0>(a.part[0], b.part[0]) + eight_of_each<8>(a.part[0], b.part[0]);
  const Part cd = eight_of_each<0>(c.part[0], d.part[0]) + eight_of_each<8>(c.part[0], d.part[0]);
  const Part four =
      __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
      __builtin_shufflevector(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  const Part two = four + __builtin_shufflevector(four, four, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9,
                                                  14, 15, 12, 13);
  const Part one =
      two + __builtin_shufflevector(two, two, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  return __builtin_shufflevector(one, one, 0, 4, 8, 12);
#else
  const Quad qa = quarter_sums(a);
  const Quad qb = quarter_sums(b);
  const Quad qc = quarter_sums(c);
  const Quad qd = quarter_sums(d);
  const Quad ab =
      __builtin_shufflevector(qa, qb, 0, 1, 4, 5) + __builtin_shufflevector(qa, qb, 2, 3, 6, 7);
  const Quad cd =
      __builtin_shufflevector(qc, qd, 0, 1, 4, 5) + __builtin_shufflevector(qc, qd, 2, 3, 6, 7);
  return __builtin_shufflevector(ab, cd, 0, 2, 4, 6) + __builtin_shufflevector(ab, cd, 1, 3, 5, 7);
#endif
}

EDGEDRAFT_INLINE float sum(const Lanes& v) {
  const Quad q = quarter_sums(v);
  return (q[0] + q[2]) + (q[1] + q[3]);
}

// True if any lane exceeds `bar`.
EDGEDRAFT_INLINE bool any_above(const Lanes& v, float bar) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(v.part[0], all_part(bar), _CMP_GT_OQ) != 0;
#else
  IntPart above = v.part[0] > all_part(bar);
  for (std::size_t p = 1; p < kParts; ++p) above |= v.part[p] > all_part(bar);
  std::int32_t any = 0;
  for (std::size_t l = 0; l < kPartLanes; ++l) any |= above[l];
  return any != 0;
#endif
}

EDGEDRAFT_INLINE float largest(const Lanes& v) {
  float lanes[kLanes];
  store(lanes, v);
  float best = lanes[0];
  for (std::size_t l = 1; l < kLanes; ++l) best = lanes[l] > best ? lanes[l] : best;
  return best;
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
