#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <type_traits>

#include "client/vulkan/backend.h"
#include "tests/runtime/op_test.h"
#include "tests/support/skip.h"

namespace edgedraft::testing {

// Puts `by` in the place of a function of the table, which may call the original.
template <class Function>
void intercept(Function& function, Function& original, std::type_identity_t<Function> by) {
  if (function == nullptr || function == by) return;
  original = function;
  function = by;
}

// Opens the first usable device with `hooks`, under the validation layer if that is installed. Any
// message of the layer, including during teardown, fails the test.
inline Result<std::unique_ptr<MeasuredBackend>> open_with(vulkan::Hooks hooks,
                                                          VulkanBackendOptions options = {}) {
  hooks.on_message = [](const std::string& message) { ADD_FAILURE() << message; };
  const auto usable = usable_vulkan_devices();
  if (!usable.empty()) options.device = usable.front().index;
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
    if (usable_vulkan_devices().empty())
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
