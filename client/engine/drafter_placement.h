#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "client/devices/compute_device.h"
#include "client/devices/device_choice.h"
#include "client/devices/shared_drafters.h"
#include "client/engine/bundle_file.h"
#include "client/engine/memory_fit.h"
#include "shared/drafting/memory_need.h"
#include "shared/runtime/memory_meter.h"
#include "shared/speculative/tree_growth.h"

namespace spdlog {
class logger;
}

namespace edgedraft::client {

// A bundle's drafter on its fastest device, with the CPU as fallback if that device is a GPU.
class DrafterPlacement {
 public:
  struct Options {
    const BundleFile& bundle;  // for BundleUse::draft
    DeviceRequest device{};
    TreeShape tree;              // to be drafted
    std::uint32_t threads;       // CPU threads
    DType kv_type = DType::f32;  // keys and values on a device that supports it
    std::shared_ptr<spdlog::logger> log{};
    std::shared_ptr<MemoryMeter> meter{};  // memory of all drafters; enforces its limit
    std::uint64_t reserved = 0;            // bytes of the limit used by others
    std::uint32_t positions = 0;           // tokens per conversation to draft in; 0: the context's
    std::uint32_t conversations = 1;       // at once
    // Memory that a second drafter, placed later in the same memory, needs for that many tokens.
    std::function<MemoryNeed(std::uint32_t positions)> beside{};
  };
  // Chooses a device and loads the drafter within the available memory. If that suffices only for
  // fewer or shorter conversations than requested, the log says so. The bundle must outlive the
  // result. Throws DeviceError if no device can hold the drafter.
  //
  // Errors    of choose_device and fit_memory
  static Result<std::unique_ptr<DrafterPlacement>> choose(const Options& options);

  // Memory of the bundle's drafter on a device, with the state kept for a fallback.
  static MemoryNeed need_on(const ComputeDevice& device, const Options& options,
                            std::uint32_t positions);

  SharedDrafters& drafters() { return *drafters_; }
  // Capacity that it was placed for.
  std::uint32_t positions() const { return fit_.positions; }
  std::uint32_t conversations() const { return fit_.conversations; }
  // All 0 if the meter has no limit.
  const MemoryNeed& need() const { return fit_.need; }

  // Device that conversations draft on now, and the reason. Threads   any
  struct Place {
    std::string id;    // "cpu", "vulkan:0"
    std::string name;  // device name from its vendor
    std::string reason;
  };
  Place place() const;

 private:
  DrafterPlacement() = default;
  void move_to(const ComputeDevice& device, const std::string& reason);

  MemoryFit fit_{};
  mutable std::mutex mutex_;
  Place place_;
  std::unique_ptr<SharedDrafters> drafters_;
};

}  // namespace edgedraft::client
