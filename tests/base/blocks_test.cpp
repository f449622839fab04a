#include "shared/tensor/blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/random.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {
namespace {

using Floats = std::vector<float>;

Floats decoded(DType type, const Bytes& stored) {
  Floats back(stored.size() / traits(type).block_bytes * traits(type).block_count);
  dequantize_row(type, stored, back);
  return back;
}

Bytes encoded(DType type, const Floats& from) {
  Bytes stored(*row_bytes(type, from.size()));
  quantize_row(type, from, stored);
  return stored;
}

void set(Bytes& bytes, std::size_t at, unsigned value) {
  bytes.at(at) = static_cast<std::byte>(value);
}

void set_half(Bytes& bytes, std::size_t at, float value) {
  store_le(&bytes.at(at), float_to_half(value));
}

// Roughly normal values, like weights: most small, few large.
Floats weights_like(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  Floats numbers(count);
  for (float& x : numbers) {
    for (int i = 0; i < 4; ++i) x += static_cast<float>(random.uniform() - 0.5);
  }
  return numbers;
}

double relative_error(const Floats& a, const Floats& b) {
  double off = 0;
  double all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    off += std::pow(double{a[i]} - double{b[i]}, 2);
    all += std::pow(double{a[i]}, 2);
  }
  return std::sqrt(off / all);
}

TEST(Q4Test, DecodesBlock) {
  Bytes block(18);
  set_half(block, 0, 0.5f);
  set(block, 2, 0xF0);       // elements 0 and 16: levels 0 and 15
  set(block, 2 + 15, 0x8A);  // elements 15 and 31: levels 10 and 8
  const Floats back = decoded(DType::q4_0, block);
  EXPECT_EQ(back[0], -4.0f);
  EXPECT_EQ(back[16], 3.5f);
  EXPECT_EQ(back[15], 1.0f);
  EXPECT_EQ(back[31], 0.0f);
  EXPECT_EQ(back[1], -4.0f);
}

TEST(Q4Test, DecodesBlockWithOffset) {
  Bytes block(20);
  set_half(block, 0, 0.5f);
  set_half(block, 2, -3.0f);
  set(block, 4, 0xF0);       // elements 0 and 16: levels 0 and 15
  set(block, 4 + 15, 0x8A);  // elements 15 and 31: levels 10 and 8
  const Floats back = decoded(DType::q4_1, block);
  EXPECT_EQ(back[0], -3.0f);
  EXPECT_EQ(back[16], 4.5f);
  EXPECT_EQ(back[15], 2.0f);
  EXPECT_EQ(back[31], 1.0f);
}

TEST(Q5Test, DecodesBlock) {
  Bytes block(22);
  set_half(block, 0, 0.5f);
  set(block, 2, 0x01);       // the fifth bit of element 0
  set(block, 5, 0xC0);       // and of elements 30 and 31
  set(block, 6, 0xF3);       // elements 0 and 16: 3 + 16 and 15
  set(block, 6 + 15, 0x8A);  // elements 15 and 31: 10 and 8 + 16
  const Floats back = decoded(DType::q5_0, block);
  EXPECT_EQ(back[0], 0.5f * (19 - 16));
  EXPECT_EQ(back[16], 0.5f * (15 - 16));
  EXPECT_EQ(back[15], 0.5f * (10 - 16));
  EXPECT_EQ(back[31], 0.5f * (24 - 16));
  EXPECT_EQ(back[30], 0.0f);
}

TEST(Q5Test, DecodesBlockWithOffset) {
  Bytes block(24);
  set_half(block, 0, 0.5f);
  set_half(block, 2, 2.0f);
  set(block, 5, 0x80);       // the fifth bit of element 15
  set(block, 6, 0x01);       // and of element 16
  set(block, 8, 0xF3);       // elements 0 and 16: 3 and 15 + 16
  set(block, 8 + 15, 0x8A);  // elements 15 and 31: 10 + 16 and 8
  const Floats back = decoded(DType::q5_1, block);
  EXPECT_EQ(back[0], 0.5f * 3 + 2);
  EXPECT_EQ(back[16], 0.5f * 31 + 2);
  EXPECT_EQ(back[15], 0.5f * 26 + 2);
  EXPECT_EQ(back[31], 0.5f * 8 + 2);
  EXPECT_EQ(back[1], 2.0f);
}

// The offset is signed, so a block's resolution depends on the range of its elements and not on
// their distance from zero. A step is a fifteenth or a 31st of that range. A uniform error within
// half a step has a root mean square of 0.29 steps. The rest allows for the offset's 11 bits.
TEST(OffsetTest, KeepsDifferencesOfElementsFarFromZero) {
  Random random(15);
  for (const auto& [type, levels] : {std::pair{DType::q4_1, 15.0}, std::pair{DType::q5_1, 31.0}}) {
    for (const float offset : {10.0f, -11.0f}) {
      Floats from(256);
      for (float& x : from) x = offset + static_cast<float>(random.uniform());
      const Floats back = decoded(type, encoded(type, from));
      double squares = 0;
      for (std::size_t i = 0; i < from.size(); ++i) {
        squares += std::pow(double{from[i]} - double{back[i]}, 2);
      }
      EXPECT_LE(std::sqrt(squares / static_cast<double>(from.size())), 0.4 / levels)
          << traits(type).name << " from " << offset;
    }
  }
}

// Scales 1 to 8 and minima 11 to 18, plus one of each above 31 to reach the upper bits.
TEST(KQuantTest, UnpacksScalesAndMinima) {
  Bytes packed(12);
  for (unsigned i = 0; i < 4; ++i) {
    set(packed, i, i + 1);
    set(packed, i + 4, i + 11);
    set(packed, i + 8, (i + 5) | ((i + 15) & 15) << 4);
  }
  set(packed, 3, 4 | 2u << 6);   // group 7's scale is 8 + 2 * 16
  set(packed, 4, 11 | 1u << 6);  // group 4's minimum is 15 + 1 * 16
  set(packed, 5, 12 | 1u << 6);
  set(packed, 6, 13 | 1u << 6);
  set(packed, 7, 14 | 1u << 6);
  for (std::uint32_t g = 0; g < 8; ++g) {
    const auto group = blocks::unpack_group(packed.data(), g);
    EXPECT_EQ(group.scale, g == 7 ? 40 : g + 1) << g;
    EXPECT_EQ(group.minimum, g == 4 ? 31 : g + 11) << g;
  }
}

TEST(KQuantTest, DecodesQ4K) {
  Bytes block(144);
  set_half(block, 0, 0.25f);
  set_half(block, 2, 2.0f);
  set(block, 4 + 0, 4);  // group 0: scale 4, minimum 3
  set(block, 4 + 4, 3);
  set(block, 4 + 3, 8);       // group 3: scale 8, minimum 0
  set(block, 16 + 5, 0x07);   // element 5: level 7
  set(block, 16 + 33, 0xC0);  // element 96 + 1: level 12
  const Floats back = decoded(DType::q4_k, block);
  EXPECT_EQ(back[5], 1.0f * 7 - 6);
  EXPECT_EQ(back[6], -6.0f);
  EXPECT_EQ(back[97], 2.0f * 12);
  EXPECT_EQ(back[255], 0.0f);
}

TEST(KQuantTest, DecodesQ5K) {
  Bytes block(176);
  set_half(block, 0, 0.25f);
  set_half(block, 2, 2.0f);
  set(block, 4 + 0, 4);  // group 0: scale 4, minimum 3
  set(block, 4 + 4, 3);
  set(block, 4 + 3, 8);                   // group 3: scale 8, minimum 0
  set(block, 16 + 1, 1u << 3 | 1u << 1);  // the fifth bits of elements 97 and 33
  set(block, 16 + 5, 1u << 0);            // and of element 5
  set(block, 48 + 5, 0x07);               // element 5: level 7 + 16
  set(block, 48 + 33, 0xC0);              // element 97: level 12 + 16
  const Floats back = decoded(DType::q5_k, block);
  EXPECT_EQ(back[5], 1.0f * 23 - 6);
  EXPECT_EQ(back[97], 2.0f * 28);
  EXPECT_EQ(back[33], 0.0f);  // group 1 has no scale
}

TEST(KQuantTest, DecodesQ6K) {
  Bytes block(210);
  set_half(block, 208, 0.5f);
  set(block, 192 + 0, 2);
  set(block, 192 + 15, 0xFF);          // elements 240 to 255: scale -1
  set(block, 192 + 13, 4);             // elements 208 to 223
  set(block, 3, 0x05);                 // element 3: four low bits 5, and
  set(block, 128 + 3, 0x02);           // two high bits 2
  set(block, 64 + 63, 0xF0);           // element 255: 15, and
  set(block, 128 + 32 + 31, 3u << 6);  // 3
  set(block, 64 + 16, 0x90);           // element 208: 9, and
  set(block, 128 + 32 + 16, 1u << 4);  // 1
  const Floats back = decoded(DType::q6_k, block);
  EXPECT_EQ(back[3], 0.5f * 2 * (5 + 32 - 32));
  EXPECT_EQ(back[0], 0.5f * 2 * (0 - 32));
  EXPECT_EQ(back[255], -0.5f * (15 + 48 - 32));
  EXPECT_EQ(back[208], 0.5f * 4 * (9 + 16 - 32));
  EXPECT_EQ(back[100], 0.0f);
}

class BlockTest : public ::testing::TestWithParam<DType> {};

// Seed 12. A step of an n-bit type is about a group's range over 2^n. A uniform error within half a
// step has a root mean square of step / sqrt(12). The elements' is about a quarter of the range.
// The bounds leave a tenth for rounding the scales.
TEST_P(BlockTest, BoundsErrorByItsBits) {
  struct Bound {
    DType type;
    double relative;  // root mean square error over that of the elements
  };
  constexpr Bound kBounds[] = {{DType::q8_0, 0.0056}, {DType::q4_0, 0.085}, {DType::q4_1, 0.076},
                               {DType::q5_0, 0.042},  {DType::q5_1, 0.037}, {DType::q4_k, 0.076},
                               {DType::q5_k, 0.038},  {DType::q6_k, 0.0185}};
  const Floats from = weights_like(12, 4096);
  const double error = relative_error(from, decoded(GetParam(), encoded(GetParam(), from)));
  for (const Bound& bound : kBounds) {
    if (bound.type == GetParam()) {
      EXPECT_LE(error, bound.relative);
    }
  }
  EXPECT_GT(error, 0.0);
}

// Converting a converted file again hardly changes it; the search may settle for slightly different
// scales.
TEST_P(BlockTest, ReencodesDecodedElementsAlmostExactly) {
  const Floats once = decoded(GetParam(), encoded(GetParam(), weights_like(13, 2048)));
  const Floats twice = decoded(GetParam(), encoded(GetParam(), once));
  EXPECT_LE(relative_error(once, twice), 0.005);
}

TEST_P(BlockTest, PreservesConstantsAndRamps) {
  const std::size_t count = traits(GetParam()).block_count;
  EXPECT_EQ(decoded(GetParam(), encoded(GetParam(), Floats(count, 0.0f))), Floats(count, 0.0f));
  for (const float constant : {-3.0f, 0.125f, 7.0f}) {
    const Floats from(count, constant);
    EXPECT_LE(relative_error(from, decoded(GetParam(), encoded(GetParam(), from))), 0.01)
        << constant;
  }
  Floats ramp(count);
  for (std::size_t i = 0; i < count; ++i) ramp[i] = static_cast<float>(i % 32) - 10.0f;
  EXPECT_LE(relative_error(ramp, decoded(GetParam(), encoded(GetParam(), ramp))), 0.1);
}

// Only the sanitizer checks this; the values are unspecified.
TEST_P(BlockTest, EncodesNonFiniteAndExtremeValuesSafely) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float strange : {kInfinity, -kInfinity, std::nanf(""), 3e38f, -3e38f, 1e-42f}) {
    Floats from = weights_like(14, 256);
    from[40] = strange;
    decoded(GetParam(), encoded(GetParam(), from));
    decoded(GetParam(), encoded(GetParam(), Floats(256, strange)));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, BlockTest,
                         testing::Values(DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0,
                                         DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k),
                         [](const auto& type) { return std::string(traits(type.param).name); });

}  // namespace
}  // namespace edgedraft
