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

}  // namespace

void store(const StoreArgs& a, const Work& work) {
  const std::size_t row_bytes = a.cache.stride * cache_element_bytes(a.cache.type);
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
      default:
        break;  // not a cache type
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
