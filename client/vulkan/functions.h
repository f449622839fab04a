#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "shared/base/error.h"

namespace edgedraft::client::vulkan {

// Vulkan functions in use, by the object that they are loaded with.
#define EDGEDRAFT_VULKAN_GLOBAL_FUNCTIONS(F) \
  F(CreateInstance)                          \
  F(EnumerateInstanceVersion)                \
  F(EnumerateInstanceLayerProperties)        \
  F(EnumerateInstanceExtensionProperties)

#define EDGEDRAFT_VULKAN_INSTANCE_FUNCTIONS(F) \
  F(DestroyInstance)                           \
  F(EnumeratePhysicalDevices)                  \
  F(EnumerateDeviceExtensionProperties)        \
  F(GetPhysicalDeviceProperties2)              \
  F(GetPhysicalDeviceFeatures2)                \
  F(GetPhysicalDeviceMemoryProperties)         \
  F(GetPhysicalDeviceQueueFamilyProperties)    \
  F(CreateDevice)                              \
  F(DestroyDevice)                             \
  F(GetDeviceQueue)                            \
  F(DeviceWaitIdle)                            \
  F(AllocateMemory)                            \
  F(FreeMemory)                                \
  F(MapMemory)                                 \
  F(CreateBuffer)                              \
  F(DestroyBuffer)                             \
  F(GetBufferMemoryRequirements)               \
  F(BindBufferMemory)                          \
  F(CreateDescriptorSetLayout)                 \
  F(DestroyDescriptorSetLayout)                \
  F(CreateDescriptorPool)                      \
  F(DestroyDescriptorPool)                     \
  F(AllocateDescriptorSets)                    \
  F(UpdateDescriptorSets)                      \
  F(CreatePipelineLayout)                      \
  F(DestroyPipelineLayout)                     \
  F(CreateShaderModule)                        \
  F(DestroyShaderModule)                       \
  F(CreatePipelineCache)                       \
  F(DestroyPipelineCache)                      \
  F(GetPipelineCacheData)                      \
  F(CreateComputePipelines)                    \
  F(DestroyPipeline)                           \
  F(CreateCommandPool)                         \
  F(DestroyCommandPool)                        \
  F(AllocateCommandBuffers)                    \
  F(FreeCommandBuffers)                        \
  F(BeginCommandBuffer)                        \
  F(EndCommandBuffer)                          \
  F(CmdBindPipeline)                           \
  F(CmdBindDescriptorSets)                     \
  F(CmdPushConstants)                          \
  F(CmdDispatch)                               \
  F(CmdPipelineBarrier)                        \
  F(CmdCopyBuffer)                             \
  F(CmdFillBuffer)                             \
  F(CmdWriteTimestamp)                         \
  F(CmdResetQueryPool)                         \
  F(CreateQueryPool)                           \
  F(DestroyQueryPool)                          \
  F(GetQueryPoolResults)                       \
  F(CreateSemaphore)                           \
  F(DestroySemaphore)                          \
  F(WaitSemaphores)                            \
  F(QueueSubmit)

// Available only with the extension VK_EXT_debug_utils; otherwise null.
#define EDGEDRAFT_VULKAN_DEBUG_FUNCTIONS(F) \
  F(CreateDebugUtilsMessengerEXT)           \
  F(DestroyDebugUtilsMessengerEXT)

// Table of all Vulkan calls, so that tests can replace functions.
struct Functions {
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;
#define EDGEDRAFT_VULKAN_MEMBER(name) PFN_vk##name name = nullptr;
  EDGEDRAFT_VULKAN_GLOBAL_FUNCTIONS(EDGEDRAFT_VULKAN_MEMBER)
  EDGEDRAFT_VULKAN_INSTANCE_FUNCTIONS(EDGEDRAFT_VULKAN_MEMBER)
  EDGEDRAFT_VULKAN_DEBUG_FUNCTIONS(EDGEDRAFT_VULKAN_MEMBER)
#undef EDGEDRAFT_VULKAN_MEMBER
};

// Test hooks; empty in programs.
struct Hooks {
  // Called after functions were loaded: first the loader's, then the instance's.
  std::function<void(Functions&)> adjust;
  // Receives the validation layer's warnings and errors. Without it they go to standard error, and
  // the next waiting call throws.
  std::function<void(const std::string&)> on_message;
  // Unless 0, caps the device's storage buffer range, so that tables are split.
  std::uint64_t storage_range_max = 0;
  // Divides work as for a GPU, on any device.
  bool as_gpu = false;
};

// Opens the loader, once per process, and finds the functions that need no instance.
//
// Errors    unsupported if there is no loader for Vulkan 1.1 or newer
Result<Functions> load_global_functions(const Hooks& hooks);
// Finds the instance's functions.
Result<void> load_instance_functions(Functions& functions, VkInstance instance, const Hooks& hooks);

// From then on the table destroys and frees nothing, because a hung device may still use it.
void abandon(Functions& functions);

// "VK_ERROR_DEVICE_LOST", or the number of an unknown result.
std::string result_name(VkResult result);
// Throws DeviceError with `tried` and the result if a call failed.
void check(VkResult result, const char* tried);

// An object of a device, destroyed with its owner unless the device was abandoned.
template <class Handle, auto Destroy>
class Owned {
 public:
  Owned() = default;
  Owned(const Functions& functions, VkDevice device, Handle handle)
      : functions_(&functions), device_(device), handle_(handle) {}
  // Creates the object. Throws DeviceError naming `tried`.
  template <class Create, class Info>
  Owned(const Functions& functions, VkDevice device, Create Functions::*create, const Info& info,
        const char* tried)
      : functions_(&functions), device_(device) {
    check((functions.*create)(device, &info, nullptr, &handle_), tried);
  }
  ~Owned() {
    if (handle_ != VK_NULL_HANDLE) (functions_->*Destroy)(device_, handle_, nullptr);
  }
  Owned(Owned&& other) noexcept { swap(other); }
  Owned& operator=(Owned&& other) noexcept {
    swap(other);
    return *this;
  }

  Handle get() const { return handle_; }

 private:
  void swap(Owned& other) {
    std::swap(functions_, other.functions_);
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
  }

  const Functions* functions_ = nullptr;
  VkDevice device_ = VK_NULL_HANDLE;
  Handle handle_ = VK_NULL_HANDLE;
};

}  // namespace edgedraft::client::vulkan
