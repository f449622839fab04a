#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft::client {

// Features used beyond those of every Vulkan 1.2 device. Verified answers are the same with and
// without them.
struct VulkanFeatures {
  // Storage buffers of 8- and 16-bit elements: scales, f16 and bytes of K types are read as stored.
  bool narrow_storage = false;
  // Half precision for decoding integers of q8_0 and q4_0, which is exact. Products and sums are
  // float32.
  bool float16 = false;
  // Dot products of four int8: activations are rounded to int8 for q8_0 and q4_0, as on the CPU
  // (MatmulOp).
  bool integer_dot = false;
  // Neighbouring lanes exchange values within their subgroup instead of through shared memory, in
  // the same order, so results are bit-identical.
  bool subgroups = false;

  bool operator==(const VulkanFeatures&) const = default;
};

// A physical device, as listed by Vulkan's loader.
struct VulkanDevice {
  std::uint32_t index;  // N of --device vulkan:N
  std::string name;
  std::string driver;       // name and version
  std::string api_version;  // such as "1.3.230"
  enum class Kind { discrete, integrated, virtual_gpu, software, other } kind;
  std::uint64_t memory_bytes;  // largest heap of the device's own memory
  VulkanFeatures features;     // supported
  VulkanFeatures used;         // used unless VulkanBackendOptions name others: those that pay off
  bool timestamps;
  std::uint32_t subgroup_width;
  std::string
      unusable;  // why it cannot be used, such as a limit that is too small; empty if usable
};

// Empty without a loader or driver, or in a build without Vulkan.
std::vector<VulkanDevice> list_vulkan_devices();

struct VulkanBackendOptions {
  std::uint32_t device = 0;                     // VulkanDevice::index
  std::filesystem::path cache_directory;        // for compiled pipelines; empty: no cache
  bool validate = false;                        // requires Khronos' validation layer
  std::optional<VulkanFeatures> features = {};  // exactly these; absent: VulkanDevice::used
  DType kv_type = DType::f32;  // of drafters' keys and values: f32, or f16 with narrow_storage
  // Counts memory on the device and memory shared with the host. Null: its own meter, without a
  // limit.
  std::shared_ptr<MemoryMeter> meter = nullptr;
};

// Returns a backend without memory (shared/runtime/planning_backend.h), whose meter reports what
// the device's would hold within a limit. Without a limit that backend takes memory in blocks of 64
// MiB, of which up to a quarter may be unused. The driver's own memory is not included.
//
// Errors    unsupported: a build without Vulkan
Result<std::unique_ptr<Backend>> plan_vulkan_backend(const VulkanFeatures& used,
                                                     DType kv_type = DType::f32);

}  // namespace edgedraft::client
