#include "tests/bench/engine_baseline.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::bench {
namespace {

class EngineBaselineTest : public ::testing::Test {
 protected:
  Result<std::vector<double>> read(const std::string& text, std::vector<std::uint32_t> widths) {
    return read_baseline(scratch_.write("baseline.json", text), report_, widths);
  }

  test::TemporaryDirectory scratch_;
  nlohmann::json report_{{"instruction_set", "avx2"}, {"threads", 1}, {"load_seconds", 0.1}};
};

TEST_F(EngineBaselineTest, ReturnsSharesOfTheMatchingEntryInOrderOfWidths) {
  const auto shares = read(R"([
    {"setting": {"instruction_set": "avx512vnni", "threads": 1}, "shares": {"1": 0.9, "8": 0.8}},
    {"setting": {"instruction_set": "avx2", "threads": 1}, "shares": {"1": 0.7, "8": 0.6}}
  ])",
                           {8, 1});
  ASSERT_TRUE(shares) << shares.error().message;
  EXPECT_EQ(*shares, (std::vector<double>{0.6, 0.7}));
}

TEST_F(EngineBaselineTest, ReportsASettingWithoutAnEntry) {
  const auto shares = read(
      R"([{"setting": {"instruction_set": "avx2", "threads": 2}, "shares": {"1": 0.7}}])", {1});
  ASSERT_TRUE(fails_with(shares, Errc::unsupported, "no baseline for this setting"));
}

TEST_F(EngineBaselineTest, RefusesFilesWithoutAShareForEachWidth) {
  for (const char* text :
       {"", "{}", "[1]", R"([{"shares": {"1": 0.7}}])",
        R"([{"setting": {}, "shares": {"2": 0.7}}])", R"([{"setting": {}, "shares": {"1": 0}}])",
        R"([{"setting": {}, "shares": {"1": "0.7"}}])"}) {
    const auto shares = read(text, {1});
    ASSERT_FALSE(shares) << text;
    EXPECT_TRUE(contains(shares.error().message, "baseline.json"));
  }
}

}  // namespace
}  // namespace edgedraft::bench
