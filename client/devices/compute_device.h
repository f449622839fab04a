#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft::client {

// A device that a drafter can compute on.
struct ComputeDevice {
  std::string id;      // as for --device: "cpu", "vulkan:0"
  std::string name;    // from its vendor
  std::string driver;  // name and version; for the CPU, the number of threads
  std::string kind;    // "cpu", "discrete", "integrated", "virtual", "software" or "other"
  std::uint64_t memory_bytes = 0;
  std::vector<std::string> features;
  std::string unusable;                       // why it cannot be used; empty: usable
  std::optional<std::uint32_t> vulkan_index;  // absent for the CPU
  bool rounds_activations = false;            // to int8, on a GPU; takes memory
  bool keeps_f16 = false;                     // the GPU supports f16 keys and values
  DType kv_type = DType::f32;                 // type of drafters' keys and values

  // True for a rasteriser, which runs Vulkan on the CPU.
  bool is_software() const { return kind == "software"; }
  // True if drafters may keep keys and values in that type.
  bool takes_kv_type(DType type) const {
    if (!vulkan_index) return is_cache_type(type);
    return type == DType::f32 || type == DType::i8 || (type == DType::f16 && keeps_f16);
  }
};

// `threads` 0 means one per fast core.
ComputeDevice cpu_device(std::uint32_t threads);
// Lists the CPU first, then the devices of Vulkan's loader.
std::vector<ComputeDevice> list_compute_devices(std::uint32_t threads);

// Errors    of make_vulkan_backend; unsupported for a device that is unusable
Result<std::unique_ptr<Backend>> make_backend(const ComputeDevice& device, std::uint32_t threads,
                                              std::shared_ptr<MemoryMeter> meter = nullptr);
// Returns a backend without memory, whose meter reports what such a device would hold within a
// limit (shared/runtime/planning_backend.h).
// Errors    unsupported: a build without Vulkan
Result<std::unique_ptr<Backend>> plan_backend(const ComputeDevice& device, std::uint32_t threads);

// "vulkan:0 (NAME)".
std::string title(const ComputeDevice& device);

}  // namespace edgedraft::client
