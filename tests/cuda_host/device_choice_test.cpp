#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <string>

#include "server/program/device.h"

// Which of several GPUs the server uses.
namespace edgedraft::testing {
using namespace server;
namespace {

class DeviceChoiceTest : public ::testing::Test {
 protected:
  ~DeviceChoiceTest() override { cuda_host::set_devices(1, 0); }

  static Result<OpenedDevice> open(const char* device) {
    return open_device({.device = device, .threads = 1});
  }
};

// If another program uses the first GPU exclusively, an idle one is taken instead.
TEST_F(DeviceChoiceTest, TakesFirstUsableGpu) {
  cuda_host::set_devices(3, 1);
  for (const char* device : {"auto", "cuda"}) {
    const auto opened = open(device).value();
    EXPECT_TRUE(opened.reason.starts_with("cuda:1, ")) << opened.reason;
    EXPECT_NE(opened.reason.find("not cuda:0"), std::string::npos) << opened.reason;
  }
}

TEST_F(DeviceChoiceTest, TakesRequestedGpuOrFails) {
  cuda_host::set_devices(2, 1);
  EXPECT_TRUE(open("cuda:1"));
  for (const char* device : {"cuda:0", "cuda:2"}) {
    const auto refused = open(device);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::unsupported);
  }
}

TEST_F(DeviceChoiceTest, FallsBackToCpuIfNoGpuIsUsable) {
  cuda_host::set_devices(2, 2);
  const auto opened = open("auto").value();
  EXPECT_EQ(opened.backend->name(), "cpu");
  for (const char* device : {"cuda:0", "cuda:1"}) {
    EXPECT_NE(opened.reason.find(device), std::string::npos) << opened.reason;
  }
  EXPECT_FALSE(open("cuda"));
}

}  // namespace
}  // namespace edgedraft::testing
