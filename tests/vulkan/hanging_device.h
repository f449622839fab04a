#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>

#include "client/vulkan/backend.h"
#include "client/vulkan/functions.h"
#include "client/vulkan/vulkan_backend.h"
#include "tests/runtime/op_test.h"
#include "tests/vulkan/vulkan_support.h"

// A device that hangs on request without a report from its driver. Submitted work then never ends.
// A wait with a timeout times out, immediately here. A wait without one, or destroying objects in
// use, fails the test.
namespace edgedraft::testing {

struct Hang {
  int waits_before = std::numeric_limits<int>::max();  // waits that the device still completes
  int timeouts = 0;

  bool is_on() const { return waits_before <= 0; }
};
inline Hang hang;

// A function of the table that must not be called while the device hangs.
template <auto Member>
struct UntilHang;
template <class R, class... Args, R (VKAPI_PTR* vulkan::Functions::*Member)(Args...)>
struct UntilHang<Member> {
  static inline R(VKAPI_PTR* original)(Args...) = nullptr;

  static VKAPI_ATTR R VKAPI_CALL call(Args... args) {
    EXPECT_FALSE(hang.is_on()) << "the call would never return or destroy objects in use";
    return original(args...);
  }
  static void install(vulkan::Functions& functions) {
    intercept(functions.*Member, original, call);
  }
};

inline PFN_vkWaitSemaphores wait_semaphores = nullptr;
inline VKAPI_ATTR VkResult VKAPI_CALL wait_or_hang(VkDevice device, const VkSemaphoreWaitInfo* info,
                                                   std::uint64_t timeout) {
  if (hang.is_on()) {
    EXPECT_NE(timeout, std::numeric_limits<std::uint64_t>::max());
    ++hang.timeouts;
    return VK_TIMEOUT;
  }
  --hang.waits_before;
  return wait_semaphores(device, info, timeout);
}

// The first usable device, without the validation layer, which does not expect shutdown while work
// is pending.
inline Result<std::unique_ptr<MeasuredBackend>> open_hanging_device() {
  hang = {};
  vulkan::Hooks hooks;
  hooks.adjust = [](vulkan::Functions& functions) {
    intercept(functions.WaitSemaphores, wait_semaphores, wait_or_hang);
#define EDGEDRAFT_UNTIL_HANG(name) UntilHang<&vulkan::Functions::name>::install(functions)
    EDGEDRAFT_UNTIL_HANG(DeviceWaitIdle);
    EDGEDRAFT_UNTIL_HANG(GetQueryPoolResults);
    EDGEDRAFT_UNTIL_HANG(FreeMemory);
    EDGEDRAFT_UNTIL_HANG(DestroyBuffer);
    EDGEDRAFT_UNTIL_HANG(DestroyDescriptorPool);
    EDGEDRAFT_UNTIL_HANG(DestroyPipeline);
    EDGEDRAFT_UNTIL_HANG(DestroyQueryPool);
    EDGEDRAFT_UNTIL_HANG(FreeCommandBuffers);
    EDGEDRAFT_UNTIL_HANG(DestroyCommandPool);
    EDGEDRAFT_UNTIL_HANG(DestroySemaphore);
    EDGEDRAFT_UNTIL_HANG(DestroyDevice);
#undef EDGEDRAFT_UNTIL_HANG
  };
  return vulkan::open_backend(hooks, {.device = usable_vulkan_devices().at(0).index});
}

// Objects of a hung device are leaked to its driver.
class HangingDeviceTest : public VulkanTest {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "leaks on purpose, which AddressSanitizer would report";
#endif
    VulkanTest::SetUp();
  }
};

}  // namespace edgedraft::testing
