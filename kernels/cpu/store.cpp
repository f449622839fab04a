#include "kernels/cpu/pages.h"
#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

constexpr float kHalfMax = 65504.0f;
constexpr float kFloatMax = 0x1.fffffep127f;

// Clamps to float16's range, except infinities and NaN.
EDGEDRAFT_INLINE float limit(float x) {
  const float limited = x > kHalfMax ? kHalfMax : x < -kHalfMax ? -kHalfMax : x;
  return __builtin_fabsf(x) <= kFloatMax ? limited : x;
}

void store_halves(const float* from, std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; i += kPartLanes) {
    const std::size_t some = smaller(kPartLanes, count - i);
    float numbers[kPartLanes] = {};
    for (std::size_t j = 0; j < some; ++j) numbers[j] = limit(from[i + j]);
    std::uint16_t halves[kPartLanes];
    to_halves(load_part(numbers), halves);
    std::memcpy(to + 2 * i, halves, some * sizeof(std::uint16_t));
  }
}

void store_bfloats(const float* from, std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, from + i, sizeof bits);
    // NaN is preserved; other values round to nearest, ties to even.
    const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    const std::uint32_t rounded = is_nan ? bits | 0x400000u : bits + 0x7FFFu + ((bits >> 16) & 1u);
    const auto top = static_cast<std::uint16_t>(rounded >> 16);
    std::memcpy(to + 2 * i, &top, sizeof top);
  }
}

// One block; the rest of an incomplete one is zero.
void store_int8_block(const float* from, std::size_t count, std::byte* to) {
  float x[kInt8Block] = {};
  std::memcpy(x, from, count * sizeof(float));
  std::uint32_t largest_bits = 0;  // non-negative floats order like their bits
  for (std::size_t i = 0; i < kInt8Block; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    bits &= 0x7FFFFFFFu;
    largest_bits = bits > largest_bits ? bits : largest_bits;
  }
  float largest;
  std::memcpy(&largest, &largest_bits, sizeof largest);
  const bool is_finite = largest_bits < 0x7F800000u;
  const bool is_zero = !is_finite || largest < kInt8Smallest;
  float scale = is_zero ? 0.0f : largest / 127.0f;
  if (scale > kInt8ScaleMax) scale = kInt8ScaleMax;
  if (!is_finite) scale = __builtin_nanf("");
  std::memcpy(to, &scale, sizeof scale);
  std::int8_t levels[kInt8Block] = {};
  if (!is_zero) {
    // Adding 1.5 * 2^23 leaves the nearest integer, ties to even, in the low bits.
    for (std::size_t i = 0; i < kInt8Block; ++i) {
      const float shifted = x[i] / scale + 0x1.8p23f;
      std::uint32_t bits;
      std::memcpy(&bits, &shifted, sizeof bits);
      levels[i] = static_cast<std::int8_t>(bits);
    }
  }
  std::memcpy(to + sizeof scale, levels, sizeof levels);
}

}  // namespace

void store(const StoreArgs& a, const Work& work) {
  const std::size_t row_bytes = cache_bytes(a.cache.type, a.cache.stride);
  for (std::size_t r = work.begin; r < work.end; ++r) {
    const float* from = a.x.data + r * a.x.stride;
    std::byte* to = a.cache.data + row_of(a.pages, a.first + r) * row_bytes;
    switch (a.cache.type) {
      case DType::f32:
        std::memcpy(to, from, a.cols * sizeof(float));
        break;
      case DType::f16:
        store_halves(from, a.cols, to);
        break;
      case DType::bf16:
        store_bfloats(from, a.cols, to);
        break;
      case DType::i8:
        for (std::size_t i = 0; i < a.cols; i += kInt8Block) {
          store_int8_block(from + i, smaller(kInt8Block, a.cols - i),
                           to + cache_bytes(DType::i8, i));
        }
        break;
      default:
        break;  // not a cache type
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
