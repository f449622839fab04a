#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/runtime/backend.h"

namespace edgedraft {

// One physical device, as Vulkan's loader lists them.
struct VulkanDevice {
  std::uint32_t index;  // N of --device vulkan:N
  std::string name;
  std::string driver;       // its name and version
  std::string api_version;  // such as "1.3.230"
  enum class Kind { discrete, integrated, virtual_gpu, software, other } kind;
  std::uint64_t memory_bytes;  // the largest heap of the device's own memory
  bool storage_16bit, storage_8bit, float16, int8, integer_dot_product, timestamps;
  std::uint32_t subgroup_width;
  std::string
      unusable;  // why it cannot be used, such as a limit that is too small; empty if it can
};

// Empty without a loader, without a driver, or in a build without Vulkan.
std::vector<VulkanDevice> list_vulkan_devices();

struct VulkanBackendOptions {
  std::uint32_t device = 0;               // VulkanDevice::index
  std::filesystem::path cache_directory;  // of compiled pipelines; empty: none is kept
  bool validate = false;                  // through Khronos' validation layer, which must be there
};

// A Backend that computes on a Vulkan 1.2 device, `name()` "vulkan". It keeps copies of what it is
// given to upload, and gathers operations until a call waits: read, top_k, argmax.
//
// Errors    unsupported: a build without Vulkan, no loader, no such device, one that cannot be
// used,
//           no validation layer; io: the device refused to start. All name the remedy.
Result<std::unique_ptr<Backend>> make_vulkan_backend(const VulkanBackendOptions& options);

}  // namespace edgedraft
