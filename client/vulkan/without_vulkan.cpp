#include "client/vulkan/vulkan_backend.h"

// The backend of builds without Vulkan's headers or glslc.
namespace edgedraft {

std::vector<VulkanDevice> list_vulkan_devices() {
  return {};
}

Result<std::unique_ptr<Backend>> make_vulkan_backend(const VulkanBackendOptions&) {
  return Error{Errc::unsupported,
               "this build has no Vulkan: install libvulkan-dev and glslc and build again, or use "
               "--device cpu"};
}

}  // namespace edgedraft
