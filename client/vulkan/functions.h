#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "shared/base/error.h"

namespace edgedraft::vulkan {

// The Vulkan functions in use, by the object that they need to be found with.
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

// There with the extension VK_EXT_debug_utils alone; null without.
#define EDGEDRAFT_VULKAN_DEBUG_FUNCTIONS(F) \
  F(CreateDebugUtilsMessengerEXT)           \
  F(DestroyDebugUtilsMessengerEXT)

// Every call goes through this table, so that a test can put its own functions into it.
struct Functions {
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;
#define EDGEDRAFT_VULKAN_MEMBER(name) PFN_vk##name name = nullptr;
  EDGEDRAFT_VULKAN_GLOBAL_FUNCTIONS(EDGEDRAFT_VULKAN_MEMBER)
  EDGEDRAFT_VULKAN_INSTANCE_FUNCTIONS(EDGEDRAFT_VULKAN_MEMBER)
  EDGEDRAFT_VULKAN_DEBUG_FUNCTIONS(EDGEDRAFT_VULKAN_MEMBER)
#undef EDGEDRAFT_VULKAN_MEMBER
};

// Where tests reach in; programs leave it empty.
struct Hooks {
  // Called when functions have been loaded: once the loader is there, and once the instance is.
  std::function<void(Functions&)> adjust;
  // Takes the validation layer's warnings and errors; without it they go to standard error and the
  // next waiting call throws.
  std::function<void(const std::string&)> on_message;
  // Caps the device's storage buffer range where not 0, so that tables are used in parts.
  std::uint64_t storage_range_max = 0;
  // Divides work as for a GPU, whatever the device is.
  bool as_gpu = false;
};

// Opens the loader, once a process, and finds what needs no instance.
//
// Errors    unsupported if there is no loader for Vulkan 1.1 or newer
Result<Functions> load_global_functions(const Hooks& hooks);
// Finds the others.
Result<void> load_instance_functions(Functions& functions, VkInstance instance, const Hooks& hooks);

// From now on nothing is destroyed or freed through the table: a device that hangs may still use
// it.
void abandon(Functions& functions);

// "VK_ERROR_DEVICE_LOST", or the number if it has no name here.
std::string result_name(VkResult result);
// Throws DeviceError if a call failed: what was tried, and the result.
void check(VkResult result, const char* tried);

// What a device owns: destroyed with its owner, unless it was abandoned.
template <class Handle, auto Destroy>
class Owned {
 public:
  Owned() = default;
  Owned(const Functions& functions, VkDevice device, Handle handle)
      : functions_(&functions), device_(device), handle_(handle) {}
  // Has one made. Throws DeviceError: what was `tried`.
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

}  // namespace edgedraft::vulkan
