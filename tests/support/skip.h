#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <string_view>

// Ends a test that cannot run without `need`, one of test::kNeeds, and prints the reason. The test
// counts as skipped, or as failed if EDGEDRAFT_TEST_REQUIRE names that need.
#define EDGEDRAFT_SKIP_WITHOUT(need, reason)                              \
  do {                                                                    \
    if (::edgedraft::test::is_required(need)) {                           \
      GTEST_FAIL() << (need) << " is required but missing: " << (reason); \
    }                                                                     \
    GTEST_SKIP() << "without " << (need) << ": " << (reason);             \
  } while (false)

namespace edgedraft::test {

// Features that a machine may lack. Needs for a driver or a backend have its name.
inline constexpr std::string_view kNeeds[] = {"amx",     "avx2",  "chromium", "cuda",    "gnuplot",
                                              "ipv6",    "netem", "npm",      "openssl", "proxy",
                                              "pytorch", "root",  "tc",       "tun",     "vulkan"};

// True if the list names the need: "vulkan,chromium".
constexpr bool names(std::string_view list, std::string_view need) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == need) return true;
    list.remove_prefix(comma == list.npos ? list.size() : comma + 1);
  }
  return false;
}

inline bool is_required(std::string_view need) {
  const char* list = std::getenv("EDGEDRAFT_TEST_REQUIRE");
  return list != nullptr && names(list, need);
}

}  // namespace edgedraft::test
