#pragma once

#include <cstdint>

#include "cuda_runtime.h"

// Host versions of the functions of CUDA's header that kernels use.

struct __half {
  std::uint16_t bits;
};

inline __half __ushort_as_half(std::uint16_t bits) {
  return {bits};
}
inline std::uint16_t __half_as_ushort(__half h) {
  return h.bits;
}

inline float __half2float(__half h) {
  const std::uint32_t sign = std::uint32_t{h.bits & 0x8000u} << 16;
  const std::uint32_t rest = h.bits & 0x7FFFu;
  if (rest >= 0x7C00u) return __uint_as_float(sign | 0x7F800000u | (rest & 0x3FFu) << 13);
  if (rest >= 0x400u) return __uint_as_float(sign | ((rest << 13) + 0x38000000u));
  const float magnitude = static_cast<float>(rest) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

// Rounds to nearest, ties to even.
inline __half __float2half_rn(float x) {
  const std::uint32_t bits = __float_as_uint(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t rest = bits & 0x7FFFFFFFu;
  const auto with_sign = [sign](std::uint32_t value) {
    return __half{static_cast<std::uint16_t>(sign | value)};
  };
  if (rest > 0x7F800000u) return with_sign(0x7FFFu);
  if (rest >= 0x477FF000u) return with_sign(0x7C00u);  // 65520 and above
  if (rest < 0x38800000u) {                            // below 2^-14: in steps of 2^-24
    return with_sign(static_cast<std::uint32_t>(std::nearbyint(__uint_as_float(rest) * 0x1p24f)));
  }
  const std::uint32_t rounded = rest + 0xFFFu + (rest >> 13 & 1u);
  return with_sign((rounded - 0x38000000u) >> 13);
}
