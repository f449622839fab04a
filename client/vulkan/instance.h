#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/vulkan/functions.h"
#include "client/vulkan/vulkan_backend.h"

namespace edgedraft::client::vulkan {

// A connection to Vulkan's loader, optionally through the validation layer.
class Instance {
 public:
  // Throws Failure if there is no loader or no validation layer, DeviceError if the loader refuses.
  Instance(const Hooks& hooks, bool validate);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const Functions& functions() const { return functions_; }
  std::vector<VkPhysicalDevice> physical_devices() const;
  // Leaves the instance and its devices to the driver: none of their objects are destroyed.
  void abandon() noexcept { vulkan::abandon(functions_); }
  // Warnings and errors of the validation layer that no hook received.
  const std::vector<std::string>& messages() const { return messages_; }

 private:
  static VKAPI_ATTR VkBool32 VKAPI_CALL take_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                                     VkDebugUtilsMessageTypeFlagsEXT,
                                                     const VkDebugUtilsMessengerCallbackDataEXT*,
                                                     void* self);
  void create(bool validate);
  void destroy();

  Hooks hooks_;
  Functions functions_;
  bool validates_ = false;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::vector<std::string> messages_;
};

// For devices on top of another interface, such as MoltenVK's; declared in a beta header.
inline constexpr const char* kPortabilitySubsetExtension = "VK_KHR_portability_subset";
// Dot products of four int8.
inline constexpr const char* kIntegerDotExtension =
    VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;

// Full subgroups.
inline constexpr const char* kSubgroupSizeExtension = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;

// Throws DeviceError if the device does not report its extensions.
bool has_extension(const Functions& functions, VkPhysicalDevice device, const char* name);

// Describes a device, and why it cannot be used, if so.
VulkanDevice describe(const Functions& functions, VkPhysicalDevice device, std::uint32_t index);

// Queue family for compute, preferring one without graphics; empty if there is none.
std::optional<std::uint32_t> compute_family(const Functions& functions, VkPhysicalDevice device);

}  // namespace edgedraft::client::vulkan
