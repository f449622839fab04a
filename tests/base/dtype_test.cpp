#include "shared/tensor/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "shared/base/random.h"

namespace edgedraft {
namespace {

TEST(DTypeTest, RoundTripsNames) {
  for (const DType type : kDTypes) {
    EXPECT_EQ(dtype_from_name(traits(type).name), type);
  }
  EXPECT_EQ(dtype_from_name("f64"), std::nullopt);
}

TEST(DTypeTest, RowBytesRequireWholeBlocks) {
  EXPECT_EQ(row_bytes(DType::f32, 3), 12u);
  EXPECT_EQ(row_bytes(DType::q8_0, 64), 68u);
  EXPECT_EQ(row_bytes(DType::q8_0, 33), std::nullopt);
  EXPECT_EQ(row_bytes(DType::q4_k, 512), 288u);
  EXPECT_EQ(row_bytes(DType::q6_k, 128), std::nullopt);
  EXPECT_EQ(row_bytes(DType::f32, std::numeric_limits<std::uint64_t>::max()), std::nullopt);
}

TEST(HalfTest, RoundTripsEveryHalfThroughFloat) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value)))) << bits;
    } else {
      ASSERT_EQ(float_to_half(value), half) << bits;
    }
  }
}

TEST(HalfTest, MatchesReferenceValues) {
  EXPECT_EQ(half_to_float(0x3C00), 1.0f);
  EXPECT_EQ(half_to_float(0xC000), -2.0f);
  EXPECT_EQ(half_to_float(0x7BFF), 65504.0f);
  EXPECT_EQ(half_to_float(0x0001), 0x1.0p-24f);
  EXPECT_EQ(half_to_float(0x7C00), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::signbit(half_to_float(0x8000)));
}

// Between every two neighbours: below the midpoint rounds down, above rounds up, the midpoint
// rounds to even.
TEST(HalfTest, RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const double low = half_to_float(static_cast<std::uint16_t>(bits));
    const double high = half_to_float(static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(float_to_half(middle), even) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9f)), bits + 1) << bits;
    ASSERT_EQ(float_to_half(-middle), (even | 0x8000)) << bits;
  }
  EXPECT_EQ(float_to_half(65519.0f), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0f), 0x7C00);
  EXPECT_EQ(float_to_half(-1e30f), 0xFC00);
}

TEST(BfloatTest, RoundsToNearestEven) {
  for (const std::uint32_t bits : {0x3F80u, 0x3F81u, 0x0000u, 0x0001u, 0x7F7Eu, 0x1234u}) {
    const auto half_up = std::bit_cast<float>(bits << 16 | 0x8000u);
    EXPECT_EQ(float_to_bfloat16(half_up), bits + bits % 2);
    EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(bits << 16 | 0x7FFFu)), bits);
    EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(bits << 16 | 0x8001u)), bits + 1);
  }
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::nanf("")))));
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_EQ(bfloat16_to_float(float_to_bfloat16(std::numeric_limits<float>::max())),
            std::numeric_limits<float>::infinity());
}

// Seed 11. Half a step of the block's scale, plus the rounding of the scale itself to float16.
TEST(Q8Test, RoundTripErrorIsWithinHalfAStep) {
  Random random(11);
  for (const std::size_t count : {32u, 64u, 1024u}) {
    std::vector<float> from(count);
    for (float& x : from) x = static_cast<float>((random.uniform() - 0.5) * 8);
    Bytes stored(*row_bytes(DType::q8_0, count));
    quantize_row(DType::q8_0, from, stored);
    std::vector<float> back(count);
    dequantize_row(DType::q8_0, stored, back);
    for (std::size_t i = 0; i < count; ++i) {
      float largest = 0;
      for (std::size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) {
        largest = std::max(largest, std::fabs(from[j]));
      }
      EXPECT_LE(std::fabs(back[i] - from[i]), largest / 127 * 0.5f + largest * 0x1.0p-11f + 1e-7f);
    }
  }
}

TEST(Q8Test, EncodesBlock) {
  std::vector<float> from(32, 0.0f);
  from[0] = 127.0f;
  from[1] = -63.5f;  // halves round away from zero
  from[2] = 0.4f;
  Bytes stored(34);
  quantize_row(DType::q8_0, from, stored);
  EXPECT_EQ(load_le<std::uint16_t>(stored.data()), 0x3C00);
  EXPECT_EQ(load_le<std::int8_t>(&stored[2]), 127);
  EXPECT_EQ(load_le<std::int8_t>(&stored[3]), -64);
  EXPECT_EQ(load_le<std::int8_t>(&stored[4]), 0);
}

TEST(Q8Test, EncodesZerosAndNonFiniteValues) {
  std::vector<float> from(32, 0.0f);
  Bytes stored(34);
  quantize_row(DType::q8_0, from, stored);
  EXPECT_EQ(stored, Bytes(34));
  from[3] = std::numeric_limits<float>::infinity();
  from[4] = std::nanf("");
  quantize_row(DType::q8_0, from, stored);  // must not be undefined; the sanitizer watches
}

TEST(DTypeTest, RoundTripsF32AndBf16Rows) {
  const std::vector<float> from = {0.0f, -1.5f, 3.0e38f, 0x1.0p-126f, 0.15625f};
  for (const DType type : {DType::f32, DType::bf16}) {
    Bytes stored(*row_bytes(type, from.size()));
    quantize_row(type, from, stored);
    std::vector<float> back(from.size());
    dequantize_row(type, stored, back);
    for (std::size_t i = 0; i < from.size(); ++i) {
      EXPECT_NEAR(back[i], from[i], std::fabs(from[i]) * 0x1.0p-8f);
    }
  }
}

}  // namespace
}  // namespace edgedraft
