#pragma once

#include <cmath>
#include <span>

#include "shared/base/bytes.h"
#include "shared/tensor/dtype.h"

namespace edgedraft::test {

// Makes blocks of random bytes valid weights of a type without encoder: sets their scales so that
// all elements are within -`largest` and `largest`.
inline void set_scales(DType type, float largest, std::span<std::byte> bytes) {
  struct Place {
    DType type;
    std::size_t at;
    float levels;  // largest element at scale 1
  };
  constexpr Place kPlaces[] = {
      {DType::q2_k, 80, 45},        {DType::q3_k, 108, 128},       {DType::iq4_xs, 0, 4064},
      {DType::iq3_s, 0, 465},       {DType::iq3_xxs, 0, 480.5f},   {DType::iq2_s, 0, 166.625f},
      {DType::iq2_xs, 0, 166.625f}, {DType::iq2_xxs, 0, 166.625f}, {DType::iq4_nl, 0, 127}};
  const std::uint32_t block_bytes = traits(type).block_bytes;
  for (std::size_t block = 0; block < bytes.size(); block += block_bytes) {
    if (type == DType::mxfp4) {
      // 12 * 2^(e - 128) is at most `largest` for the larger of two exponents.
      const int exponent = std::ilogb(largest / 12.0f) + 128;
      bytes[block] = static_cast<std::byte>(exponent - std::to_integer<int>(bytes[block]) % 2);
    }
    for (const Place& place : kPlaces) {
      if (place.type != type) continue;
      store_le(&bytes[block + place.at], float_to_half(0.99f * largest / place.levels));
      if (type == DType::q2_k) {
        store_le(&bytes[block + place.at + 2], float_to_half(0.99f * largest / 15.0f));
      }
    }
  }
}

}  // namespace edgedraft::test
