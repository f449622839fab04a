#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <string_view>

// Ends a test that cannot run for want of `need`, one of test::kNeeds, and says why: as skipped, or
// as failed if EDGEDRAFT_TEST_REQUIRE names that need.
#define EDGEDRAFT_SKIP_WITHOUT(need, reason)                                  \
  do {                                                                        \
    if (::edgedraft::test::is_required(need)) {                               \
      GTEST_FAIL() << (need) << " is required and is not here: " << (reason); \
    }                                                                         \
    GTEST_SKIP() << "without " << (need) << ": " << (reason);                 \
  } while (false)

namespace edgedraft::test {

// What a machine may lack. A need that names a driver or a backend is called as they are.
inline constexpr std::string_view kNeeds[] = {"amx",     "avx2",  "chromium", "cuda",    "gnuplot",
                                              "ipv6",    "netem", "npm",      "openssl", "proxy",
                                              "pytorch", "root",  "tc",       "tun",     "vulkan"};

// Whether the list names the need: "vulkan,chromium".
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
