#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft {

// A place where a drafter can compute.
struct ComputeDevice {
  std::string id;      // what --device takes: "cpu", "vulkan:0"
  std::string name;    // the maker's
  std::string driver;  // its name and version; of the CPU the number of threads
  std::string kind;    // "cpu", "discrete", "integrated", "virtual", "software" or "other"
  std::uint64_t memory_bytes = 0;
  std::vector<std::string> features;
  std::string unusable;                       // why it cannot be used; empty if it can
  std::optional<std::uint32_t> vulkan_index;  // absent for the CPU
  bool rounds_activations = false;            // of a GPU: takes memory for that
  bool keeps_f16 = false;                     // of a GPU: keys and values may be f16 there
  DType kv_type = DType::f32;                 // of drafters' keys and values there

  // A rasteriser: Vulkan on the CPU.
  bool is_software() const { return kind == "software"; }
};

// `threads` 0: one per fast core.
ComputeDevice cpu_device(std::uint32_t threads);
// The CPU first, then what Vulkan's loader lists.
std::vector<ComputeDevice> list_compute_devices(std::uint32_t threads);

// Errors    of make_vulkan_backend; unsupported for a device that is unusable
Result<std::unique_ptr<Backend>> make_backend(const ComputeDevice& device, std::uint32_t threads,
                                              std::shared_ptr<MemoryMeter> meter = nullptr);
// One without memory, whose meter tells what such a backend would hold within a limit
// (shared/runtime/planning_backend.h).
// Errors    unsupported: a build without Vulkan
Result<std::unique_ptr<Backend>> plan_backend(const ComputeDevice& device, std::uint32_t threads);

// "vulkan:0 (NAME)".
std::string title(const ComputeDevice& device);

}  // namespace edgedraft
