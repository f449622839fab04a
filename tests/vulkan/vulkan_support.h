#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "client/vulkan/backend.h"
#include "tests/runtime/op_test.h"
#include "tests/support/skip.h"

namespace edgedraft::testing {

// Opens the first usable device with `hooks`, under the validation layer if that is installed. Any
// message of the layer, including during teardown, fails the test.
inline Result<std::unique_ptr<MeasuredBackend>> open_with(vulkan::Hooks hooks,
                                                          VulkanBackendOptions options = {}) {
  hooks.on_message = [](const std::string& message) { ADD_FAILURE() << message; };
  for (const VulkanDevice& device : list_vulkan_devices()) {
    if (!device.unusable.empty()) continue;
    options.device = device.index;
    break;
  }
  options.validate = true;
  auto backend = vulkan::open_backend(hooks, options);
  if (backend || !lacks_validation_layer(backend.error())) return backend;
  options.validate = false;
  return vulkan::open_backend(hooks, options);
}

// Skips with a message if there is no device.
class VulkanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const VulkanDevice& device : list_vulkan_devices()) {
      if (device.unusable.empty()) return;
    }
    EDGEDRAFT_SKIP_WITHOUT("vulkan", "install mesa-vulkan-drivers for a software device");
  }
};

// VulkanTest with the device open.
class OpenVulkanTest : public VulkanTest {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    if (IsSkipped()) return;
    auto opened = open_with({});
    ASSERT_TRUE(opened) << opened.error().message;
    vulkan_ = std::move(*opened);
  }

  std::unique_ptr<MeasuredBackend> vulkan_;
};

}  // namespace edgedraft::testing
