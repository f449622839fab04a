#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/vulkan/functions.h"
#include "client/vulkan/vulkan_backend.h"

namespace edgedraft::vulkan {

// A connection to Vulkan's loader, through the validation layer if that is asked for.
class Instance {
 public:
  // Throws Failure: no loader, no validation layer; DeviceError: the loader refused.
  Instance(const Hooks& hooks, bool validate);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const Functions& functions() const { return functions_; }
  std::vector<VkPhysicalDevice> physical_devices() const;
  // Leaves itself and its devices to the driver: neither they nor what they own is destroyed.
  void abandon() noexcept { vulkan::abandon(functions_); }
  // The validation layer's warnings and errors so far that no hook took.
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

// For devices on top of another interface, such as MoltenVK's; its header is one of the beta ones.
inline constexpr const char* kPortabilitySubsetExtension = "VK_KHR_portability_subset";
// That of four products of int8 and their sum.
inline constexpr const char* kIntegerDotExtension =
    VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;

// That of full subgroups.
inline constexpr const char* kSubgroupSizeExtension = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;

// Throws DeviceError if the device does not tell.
bool has_extension(const Functions& functions, VkPhysicalDevice device, const char* name);

// What a device needs and has, and why it cannot be used, if it cannot.
VulkanDevice describe(const Functions& functions, VkPhysicalDevice device, std::uint32_t index);

// The family of queues that can compute, those without graphics first; nothing if there is none.
std::optional<std::uint32_t> compute_family(const Functions& functions, VkPhysicalDevice device);

}  // namespace edgedraft::vulkan
