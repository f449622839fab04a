#include "client/vulkan/vulkan_backend.h"

// Backend of builds without Vulkan's headers or glslc.
namespace edgedraft::client {
namespace {

Error no_vulkan() {
  return {Errc::unsupported,
          "this build has no Vulkan support: install libvulkan-dev and glslc and rebuild, or use "
          "--device cpu"};
}

}  // namespace

std::vector<VulkanDevice> list_vulkan_devices() {
  return {};
}

Result<std::unique_ptr<MeasuredBackend>> make_vulkan_backend(const VulkanBackendOptions&) {
  return no_vulkan();
}

Result<std::unique_ptr<Backend>> plan_vulkan_backend(const VulkanFeatures&, DType) {
  return no_vulkan();
}

}  // namespace edgedraft::client
