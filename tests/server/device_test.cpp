#include "server/program/device.h"

#include <gtest/gtest.h>

#include "tests/support/expect.h"

namespace edgedraft::server {
namespace {

TEST(DeviceTest, CpuIsAlwaysAvailable) {
  const auto device = open_device({.device = "cpu", .threads = 1});
  ASSERT_TRUE(device);
  EXPECT_EQ(device->backend->name(), "cpu");
  EXPECT_EQ(device->reason, "cpu, as requested");
}

TEST(DeviceTest, AutoPicksAvailableDeviceAndGivesReason) {
  const auto device = open_device({.device = "auto", .threads = 1});
  ASSERT_TRUE(device);
  if (device->backend->name() == "cpu") {
    // The reason: no CUDA in this build, no driver, or no device.
    EXPECT_GT(device->reason.size(), std::string("cpu: ").size());
  } else {
    EXPECT_EQ(device->backend->name(), "cuda");
  }
}

TEST(DeviceTest, RefusesUnknownKindsAndListsKnownOnes) {
  for (const char* name : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "vulkan:0", ""}) {
    const auto device = open_device({.device = name, .threads = 1});
    EXPECT_TRUE(fails_with(device, Errc::usage, "cuda:0")) << name;
  }
}

TEST(DeviceTest, MissingGpuIsUnsupported) {
  const auto device = open_device({.device = "cuda:4095", .threads = 1});
  EXPECT_TRUE(fails_with(device, Errc::unsupported));
}

}  // namespace
}  // namespace edgedraft::server
