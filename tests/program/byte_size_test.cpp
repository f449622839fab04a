#include "shared/program/byte_size.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace edgedraft {
namespace {

TEST(ByteSizeTest, ParsesBinaryUnitsIgnoringCase) {
  for (const auto& [text, bytes] : {
           std::pair{"0", std::uint64_t{0}},
           std::pair{"1000", std::uint64_t{1000}},
           std::pair{"1000b", std::uint64_t{1000}},
           std::pair{"3k", std::uint64_t{3} << 10},
           std::pair{"512MB", std::uint64_t{512} << 20},
           std::pair{"512 mb", std::uint64_t{512} << 20},
           std::pair{"2Gi", std::uint64_t{2} << 30},
           std::pair{"2 GiB", std::uint64_t{2} << 30},
           std::pair{"1T", std::uint64_t{1} << 40},
           std::pair{"15EB", std::uint64_t{15} << 60},
           std::pair{"18446744073709551615", ~std::uint64_t{0}},
       }) {
    const auto size = parse_byte_size(text);
    ASSERT_TRUE(size) << size.error().message;
    EXPECT_EQ(*size, bytes) << text;
  }
}

TEST(ByteSizeTest, RejectsInvalidSizesWithExample) {
  for (const char* text : {"", "-5", "-5MB", "+5", "1.5GB", "1,5GB", "GB", "much", "5XB", "5MBs",
                           "5 M B", "16EB", "18446744073709551616", "0x10", "5-"}) {
    const auto size = parse_byte_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_EQ(size.error().code, Errc::usage);
    EXPECT_TRUE(size.error().message.starts_with("'" + std::string(text) + "': give a size"))
        << size.error().message;
    EXPECT_NE(size.error().message.find("1536MB"), std::string::npos) << size.error().message;
  }
}

}  // namespace
}  // namespace edgedraft
