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

namespace edgedraft {

// What is used of a device beyond what all of Vulkan 1.2 have. Answers are the same with and
// without.
struct VulkanFeatures {
  // Storage buffers of 8- and 16-bit numbers: scales and f16 are read as they are stored, and so
  // are the bytes of K types.
  bool narrow_storage = false;
  // Half precision, in which integers of q8_0 and q4_0 are decoded: exact, so that no bit of a
  // result changes. Products and sums are float32.
  bool float16 = false;
  // Four products of int8 and their sum at once: activations are rounded to int8 for q8_0 and q4_0,
  // as on the CPU (MatmulOp).
  bool integer_dot = false;
  // Neighbouring lanes exchange numbers within their subgroup instead of through shared memory, in
  // the same order: no bit of a result changes.
  bool subgroups = false;

  bool operator==(const VulkanFeatures&) const = default;
};

// One physical device, as Vulkan's loader lists them.
struct VulkanDevice {
  std::uint32_t index;  // N of --device vulkan:N
  std::string name;
  std::string driver;       // its name and version
  std::string api_version;  // such as "1.3.230"
  enum class Kind { discrete, integrated, virtual_gpu, software, other } kind;
  std::uint64_t memory_bytes;  // the largest heap of the device's own memory
  VulkanFeatures features;     // that it has
  VulkanFeatures used;         // those that pay: used unless VulkanBackendOptions say otherwise
  bool timestamps;
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
  std::optional<VulkanFeatures> features = {};  // use exactly these; absent: VulkanDevice::used
  DType kv_type = DType::f32;  // of drafters' keys and values: f32, or f16 with narrow_storage
  // Counts its memory: on the device, and what both the device and the host see. Null: one of its
  // own, without a limit.
  std::shared_ptr<MemoryMeter> meter = nullptr;
};

// A backend without memory (shared/runtime/planning_backend.h) whose meter tells what the device's
// would hold within a limit; without one it takes memory in pieces of 64 MiB, of which up to a
// quarter may stay unused. What the driver takes for itself is not known.
//
// Errors    unsupported: a build without Vulkan
Result<std::unique_ptr<Backend>> plan_vulkan_backend(const VulkanFeatures& used,
                                                     DType kv_type = DType::f32);

}  // namespace edgedraft
