#include "server/program/memory_limit.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "shared/base/check.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::server {
namespace {

constexpr std::uint64_t kGibibyte = std::uint64_t{1} << 30;
constexpr std::uint64_t kWithoutLimit = std::numeric_limits<std::uint64_t>::max();

// A machine's control group files.
class MemoryLimitTest : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream out(path);
    out << text << '\n';
    EDGEDRAFT_CHECK(out.good());
  }
  void write(const std::string& file, std::uint64_t bytes) const {
    write(file, std::to_string(bytes));
  }
  std::uint64_t limit() const { return control_group_limit(root_.path()); }

 private:
  test::TemporaryDirectory root_;
};

TEST_F(MemoryLimitTest, IsUnlimitedWithoutControlGroups) {
  EXPECT_EQ(limit(), kWithoutLimit);
  write("proc/self/cgroup", "0::/");
  EXPECT_EQ(limit(), kWithoutLimit);
}

// A systemd unit in a slice.
TEST_F(MemoryLimitTest, IsMinimumOfOwnAndParentGroups) {
  write("proc/self/cgroup", "0::/edge.slice/edgedraft-server.service");
  write("sys/fs/cgroup/edge.slice/edgedraft-server.service/memory.max", "max");
  EXPECT_EQ(limit(), kWithoutLimit);
  write("sys/fs/cgroup/edge.slice/memory.max", 16 * kGibibyte);
  EXPECT_EQ(limit(), 16 * kGibibyte);
  write("sys/fs/cgroup/edge.slice/edgedraft-server.service/memory.max", 24 * kGibibyte);
  EXPECT_EQ(limit(), 16 * kGibibyte);
  write("sys/fs/cgroup/edge.slice/edgedraft-server.service/memory.max", 8 * kGibibyte);
  EXPECT_EQ(limit(), 8 * kGibibyte);
  write("sys/fs/cgroup/other.slice/memory.max", kGibibyte);
  EXPECT_EQ(limit(), 8 * kGibibyte);
}

// In a pod, its own group is the root of the hierarchy.
TEST_F(MemoryLimitTest, ReadsLimitOfContainer) {
  write("proc/self/cgroup", "0::/");
  write("sys/fs/cgroup/memory.max", 4 * kGibibyte);
  EXPECT_EQ(limit(), 4 * kGibibyte);
}

TEST_F(MemoryLimitTest, ReadsCgroupV1) {
  write("proc/self/cgroup",
        "5:cpu,cpuacct:/docker/1\n4:name=systemd:/docker/1\n3:hugetlb,memory:/docker/1\n0::/");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");  // no limit
  EXPECT_EQ(limit(), 9223372036854771712u);
  write("sys/fs/cgroup/cpu/docker/1/memory.limit_in_bytes", kGibibyte);
  EXPECT_EQ(limit(), 9223372036854771712u);
  write("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", 2 * kGibibyte);
  EXPECT_EQ(limit(), 2 * kGibibyte);
}

// With cgroup v1 the mount starts at the container's group, but the process sees the whole path.
TEST_F(MemoryLimitTest, ReadsCgroupV1InContainer) {
  write("proc/self/cgroup", "4:memory:/kubepods/burstable/pod1/container1");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", 3 * kGibibyte);
  EXPECT_EQ(limit(), 3 * kGibibyte);
}

TEST(UsableMemoryTest, IsKnownOnThisMachine) {
  EXPECT_GT(usable_memory_bytes(), 0u);
  EXPECT_LE(usable_memory_bytes(), control_group_limit("/"));
}

}  // namespace
}  // namespace edgedraft::server
