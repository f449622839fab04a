#include "shared/base/bytes.h"

#include <gtest/gtest.h>

#include <limits>

namespace edgedraft {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(BytesTest, CheckedArithmeticDetectsOverflow) {
  EXPECT_EQ(checked_mul(3, 5), 15u);
  EXPECT_EQ(checked_mul(kMax, 0), 0u);
  EXPECT_EQ(checked_mul(kMax, 1), kMax);
  EXPECT_EQ(checked_mul(kMax / 2 + 1, 2), std::nullopt);
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
}

TEST(BytesTest, LoadsAndStoresUnalignedLittleEndian) {
  Bytes bytes(9);
  store_le(&bytes[1], std::uint32_t{0x01020304});
  EXPECT_EQ(bytes[1], std::byte{4});
  EXPECT_EQ(bytes[4], std::byte{1});
  EXPECT_EQ(load_le<std::uint16_t>(&bytes[2]), 0x0203);
}

TEST(BytesTest, RoundTripsHex) {
  Bytes bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<std::byte>(i));
  const std::string text = to_hex(bytes);
  EXPECT_EQ(text.substr(0, 8), "00010203");
  EXPECT_EQ(text.substr(508), "feff");
  EXPECT_EQ(from_hex(text), bytes);
  EXPECT_EQ(from_hex("FfAa"), (Bytes{std::byte{0xFF}, std::byte{0xAA}}));
  EXPECT_EQ(from_hex(""), Bytes{});
}

TEST(BytesTest, RejectsInvalidHex) {
  for (const char* text : {"0", "0g", "g0", " 0", "0x", "00 "}) {
    EXPECT_EQ(from_hex(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace edgedraft
