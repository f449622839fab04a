#include "shared/base/fast_cores.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace edgedraft {
namespace {

// A Linux sysfs folder for cores of these capacities.
class FastCoresTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(std::uint32_t core, const std::string& capacity) {
    const auto cpu = folder_ / ("cpu" + std::to_string(core));
    std::filesystem::create_directories(cpu);
    std::ofstream(cpu / "cpu_capacity") << capacity << '\n';
  }
  void write_all(const std::vector<std::uint32_t>& capacities) {
    for (std::uint32_t core = 0; core < capacities.size(); ++core) {
      write(core, std::to_string(capacities[core]));
    }
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) /
      ("fast_cores_" + std::to_string(::getpid()) + "_" +
       ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::vector<std::uint32_t> all_ = {0, 1, 2, 3, 4, 5, 6, 7};
};

// One large core, three middle and four small ones, as in many phones.
TEST_F(FastCoresTest, CountsLargeAndMediumCoresOnly) {
  write_all({250, 250, 250, 250, 780, 780, 780, 1024});
  EXPECT_EQ(fast_cores(folder_, all_), 4u);
}

TEST_F(FastCoresTest, CountsCoresFromHalfTheFastestSpeed) {
  write_all({511, 512, 1024, 1024, 100, 100, 100, 100});
  EXPECT_EQ(fast_cores(folder_, all_), 3u);
}

TEST_F(FastCoresTest, CountsAllEqualCores) {
  write_all({1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024});
  EXPECT_EQ(fast_cores(folder_, all_), 8u);
}

// Restricted to small cores, a process is fastest with all of them.
TEST_F(FastCoresTest, CountsAllowedCoresOnly) {
  write_all({250, 250, 250, 250, 780, 780, 780, 1024});
  EXPECT_EQ(fast_cores(folder_, std::vector<std::uint32_t>{0, 1, 2, 3}), 4u);
  EXPECT_EQ(fast_cores(folder_, std::vector<std::uint32_t>{3, 4, 7}), 2u);
}

TEST_F(FastCoresTest, CountsAllCoresIfASpeedIsMissingOrInvalid) {
  EXPECT_EQ(fast_cores(folder_, all_), 8u);
  EXPECT_EQ(fast_cores(folder_, std::vector<std::uint32_t>{2, 5}), 2u);
  EXPECT_EQ(fast_cores(folder_, {}), 0u);
  write_all({250, 250, 250, 250, 780, 780, 780});
  EXPECT_EQ(fast_cores(folder_, all_), 8u);
  for (const char* capacity : {"", "fast", "0"}) {
    write(7, capacity);
    EXPECT_EQ(fast_cores(folder_, all_), 8u) << capacity;
  }
}

TEST(ThisMachineTest, HasBetweenOneAndAllFastCores) {
  EXPECT_GE(fast_cores(), 1u);
  EXPECT_LE(fast_cores(), std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace edgedraft
