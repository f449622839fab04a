#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "shared/base/error.h"

namespace edgedraft {

// For EXPECT_TRUE, which then prints the text.
inline ::testing::AssertionResult contains(std::string_view text, std::string_view part) {
  if (text.find(part) != std::string_view::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no '" << part << "' in: " << text;
}

// True for an error with this code whose message contains `part`.
template <class T>
::testing::AssertionResult fails_with(const Result<T>& result, Errc code,
                                      std::string_view part = {}) {
  if (result) return ::testing::AssertionFailure() << "no error";
  if (result.error().code != code) {
    return ::testing::AssertionFailure() << "another error: " << result.error().message;
  }
  return contains(result.error().message, part);
}

}  // namespace edgedraft
