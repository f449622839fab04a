#include "tests/support/skip.h"

#include <gtest/gtest-spi.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>

namespace edgedraft::test {
namespace {

void wants_chromium() {
  EDGEDRAFT_SKIP_WITHOUT("chromium", "apt-get install chromium");
}

class Environment {
 public:
  explicit Environment(const char* value) {
    if (const char* had = std::getenv(kName)) had_ = had;
    setenv(kName, value, 1);
  }
  ~Environment() {
    if (had_.empty()) {
      unsetenv(kName);
    } else {
      setenv(kName, had_.c_str(), 1);
    }
  }

 private:
  static constexpr const char* kName = "EDGEDRAFT_TEST_REQUIRE";
  std::string had_;
};

TEST(SkipTest, FailsIfRequired) {
  const Environment environment("vulkan,chromium");
  EXPECT_TRUE(is_required("vulkan"));
  EXPECT_FALSE(is_required("cuda"));
  EXPECT_FATAL_FAILURE(wants_chromium(), "chromium is required but missing: apt-get");
}

TEST(SkipTest, SkipsIfNotRequired) {
  const Environment environment("vulkan");
  testing::TestPartResultArray results;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    wants_chromium();
  }
  ASSERT_EQ(results.size(), 1);
  EXPECT_TRUE(results.GetTestPartResult(0).skipped());
  EXPECT_NE(std::string(results.GetTestPartResult(0).message()).find("without chromium: apt-get"),
            std::string::npos);
}

TEST(SkipTest, MatchesWholeNames) {
  EXPECT_TRUE(names("tun,vulkan", "tun"));
  EXPECT_FALSE(names("tun,vulkan", "vul"));
  EXPECT_FALSE(names("tunnel", "tun"));
  EXPECT_FALSE(names("", "tun"));
}

// A misspelt name would require nothing.
TEST(SkipTest, EnvironmentListsKnownNeeds) {
  const char* list = std::getenv("EDGEDRAFT_TEST_REQUIRE");
  if (list == nullptr) return;
  std::istringstream all(list);
  for (std::string need; std::getline(all, need, ',');) {
    EXPECT_NE(std::ranges::find(kNeeds, need), std::end(kNeeds))
        << "unknown need in EDGEDRAFT_TEST_REQUIRE: \"" << need << "\"";
  }
}

}  // namespace
}  // namespace edgedraft::test
