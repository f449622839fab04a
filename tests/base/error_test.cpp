#include "shared/base/error.h"

#include <gtest/gtest.h>

#include <set>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

TEST(ErrorTest, NamesOfCodesAreDistinct) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(Errc::cancelled); ++code) {
    names.insert(to_string(static_cast<Errc>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Errc::cancelled) + 1);
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(ErrorTest, ValueThrowsFailure) {
  const Result<int> result = Error{Errc::io, "no disk"};
  try {
    result.value();
    FAIL() << "expected an exception";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().code, Errc::io);
    EXPECT_STREQ(failure.what(), "no disk");
  }
}

TEST(CheckDeathTest, NamesBrokenInvariant) {
  const int count = 3;
  EXPECT_DEATH(EDGEDRAFT_CHECK(count == 4), "error_test.cpp.*count == 4");
}

}  // namespace
}  // namespace edgedraft
