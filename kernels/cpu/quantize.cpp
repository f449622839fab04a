#include "kernels/cpu/int8.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// A block below this counts as zeros: its inverse would overflow.
constexpr float kSmallest = 0x1p-100f;

// Rotates: lane l gets lane l + distance, modulo the lane count.
template <int kDistance, class Vector>
EDGEDRAFT_INLINE Vector rotated(Vector v) {
#define EDGEDRAFT_LANE(l) (l + kDistance) % static_cast<int>(kPartLanes)
#if defined(__AVX512F__)
  return __builtin_shufflevector(
      v, v, EDGEDRAFT_LANE(0), EDGEDRAFT_LANE(1), EDGEDRAFT_LANE(2), EDGEDRAFT_LANE(3),
      EDGEDRAFT_LANE(4), EDGEDRAFT_LANE(5), EDGEDRAFT_LANE(6), EDGEDRAFT_LANE(7), EDGEDRAFT_LANE(8),
      EDGEDRAFT_LANE(9), EDGEDRAFT_LANE(10), EDGEDRAFT_LANE(11), EDGEDRAFT_LANE(12),
      EDGEDRAFT_LANE(13), EDGEDRAFT_LANE(14), EDGEDRAFT_LANE(15));
#elif defined(__AVX__)
  return __builtin_shufflevector(v, v, EDGEDRAFT_LANE(0), EDGEDRAFT_LANE(1), EDGEDRAFT_LANE(2),
                                 EDGEDRAFT_LANE(3), EDGEDRAFT_LANE(4), EDGEDRAFT_LANE(5),
                                 EDGEDRAFT_LANE(6), EDGEDRAFT_LANE(7));
#else
  return __builtin_shufflevector(v, v, EDGEDRAFT_LANE(0), EDGEDRAFT_LANE(1), EDGEDRAFT_LANE(2),
                                 EDGEDRAFT_LANE(3));
#endif
#undef EDGEDRAFT_LANE
}

// Reduces all lanes; the order does not matter for these operations.
template <class Vector, class Operation>
EDGEDRAFT_INLINE auto fold(Vector v, const Operation& operation) {
  if constexpr (kPartLanes > 8) v = operation(v, rotated<8>(v));
  if constexpr (kPartLanes > 4) v = operation(v, rotated<4>(v));
  v = operation(v, rotated<2>(v));
  v = operation(v, rotated<1>(v));
  return v[0];
}
EDGEDRAFT_INLINE IntPart larger_ints(IntPart a, IntPart b) {
#if defined(__AVX512F__)
  return reinterpret_cast<IntPart>(
      _mm512_maskz_max_epi32(0xFFFF, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#else
  return a > b ? a : b;
#endif
}

// The largest magnitude of a block's elements; NaN if one is infinite or NaN. Bits of magnitudes
// order like the values.
float largest_of(const float* x) {
  IntPart largest{};
  for (std::size_t i = 0; i < kBlock; i += kPartLanes) {
    largest = larger_ints(reinterpret_cast<IntPart>(load_part(x + i)) & 0x7FFFFFFF, largest);
  }
  constexpr std::int32_t kInfinity = 0x7F800000;
  std::int32_t bits = fold(largest, [](IntPart a, IntPart b) { return larger_ints(a, b); });
  if (bits == kInfinity) ++bits;
  float magnitude;
  std::memcpy(&magnitude, &bits, sizeof magnitude);
  return magnitude;
}

// Adding 1.5 * 2^23 leaves the nearest integer, ties to even, in the low bits. Unsigned, since
// non-finite elements leave arbitrary bits; the NaN scale marks them.
EDGEDRAFT_INLINE UintPart nearest(Part x) {
  const Part magic = all_part(0x1.8p23f);
  return reinterpret_cast<UintPart>(x + magic) - reinterpret_cast<UintPart>(magic);
}

// kPartLanes values of -127..127 in the layout of QuadActivations.
EDGEDRAFT_INLINE void store_quads(std::byte* to, IntPart v) {
#if defined(__aarch64__)
  const int16x4_t words = vmovn_s32(v);
  const int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
  std::memcpy(to, &bytes, kPartLanes);
#elif defined(EDGEDRAFT_DOT_INSTRUCTION) && defined(__AVX512F__)
  const __m128i bytes = _mm512_maskz_cvtepi32_epi8(0xFFFF, reinterpret_cast<__m512i>(v));
  std::memcpy(to, &bytes, sizeof bytes);
#elif defined(EDGEDRAFT_DOT_INSTRUCTION) || defined(EDGEDRAFT_SHORT_SUMS)
  const __m128i low = _mm256_castsi256_si128(reinterpret_cast<__m256i>(v));
  const __m128i high = _mm256_extracti128_si256(reinterpret_cast<__m256i>(v), 1);
  const __m128i words = _mm_packs_epi32(low, high);
  const __m128i bytes = _mm_packs_epi16(words, words);
  std::memcpy(to, &bytes, kPartLanes);
#else
  std::int32_t numbers[kPartLanes];
  std::memcpy(numbers, &v, sizeof v);
  std::int16_t split[kPartLanes];
  for (std::size_t i = 0; i < kPartLanes; i += 4) {
    split[i] = static_cast<std::int16_t>(numbers[i]);
    split[i + 1] = static_cast<std::int16_t>(numbers[i + 2]);
    split[i + 2] = static_cast<std::int16_t>(numbers[i + 1]);
    split[i + 3] = static_cast<std::int16_t>(numbers[i + 3]);
  }
  std::memcpy(to, split, sizeof split);
#endif
}

EDGEDRAFT_INLINE std::uint32_t lane_sum(UintPart v) {
  return fold(v, [](UintPart a, UintPart b) { return a + b; });
}

// The elements from x on.
void quantize_block(const float* x, std::byte* block) {
  const float largest = largest_of(x);
  const bool is_zero = largest < kSmallest;
  const float inverse = is_zero ? 0.0f : 127.0f / largest;
  const float scale = is_zero ? 0.0f : largest / 127.0f;
  constexpr std::size_t kHalf = kBlock / 2;
  UintPart half_sums[2] = {};
  for (std::size_t i = 0; i < kBlock; i += kPartLanes) {
    const UintPart v = nearest(load_part(x + i) * all_part(inverse));
    half_sums[i / kHalf] += v;
    store_quads(block + kQuadsOffset + i / 4 * kQuadBytes, reinterpret_cast<IntPart>(v));
  }
  const std::uint32_t starts[2] = {0u - 128u * lane_sum(half_sums[0] + half_sums[1]),
                                   0u - 128u * lane_sum(half_sums[0])};
  static_assert(sizeof starts == kScaleOffset);
  std::memcpy(block, starts, sizeof starts);
  std::memcpy(block + kScaleOffset, &scale, sizeof scale);
}

}  // namespace

static_assert(kActivationBlockBytes <= quantized_row_bytes(kBlock));
static_assert(129 * kActivationBlockBytes <= quantized_row_bytes(129 * kBlock));

void quantize(const QuantizeArgs& a, const Work& work) {
  for (std::size_t r = work.begin; r < work.end; ++r) {
    const float* x = a.x.data + r * a.x.stride;
    std::byte* row = a.y + r * a.y_stride;
    for (std::size_t block = 0; block < a.cols / kBlock; ++block) {
      quantize_block(x + block * kBlock, row + block * kActivationBlockBytes);
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
