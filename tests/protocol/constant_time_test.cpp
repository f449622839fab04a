#include "shared/protocol/constant_time.h"

#include <gtest/gtest.h>

namespace edgedraft {
namespace {

TEST(ConstantTimeTest, DistinguishesEqualFromDifferent) {
  const auto equal = [](std::string_view a, std::string_view b) {
    return equal_in_constant_time(as_byte_view(a), as_byte_view(b));
  };
  EXPECT_TRUE(equal("secret", "secret"));
  EXPECT_TRUE(equal("", ""));
  EXPECT_FALSE(equal("secret", "secreT"));
  EXPECT_FALSE(equal("secret", "secret "));
  EXPECT_FALSE(equal("secret", ""));
}

}  // namespace
}  // namespace edgedraft
