#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "client/devices/compute_device.h"
#include "client/devices/device_request.h"
#include "client/devices/shared_drafters.h"
#include "client/engine/bundle_file.h"
#include "client/engine/memory_fit.h"
#include "shared/drafting/memory_need.h"
#include "shared/runtime/memory_meter.h"
#include "shared/speculative/tree_growth.h"

namespace spdlog {
class logger;
}

namespace edgedraft {

// A bundle's drafter on the device that suits it best, with the CPU to go on with if that is a GPU.
class DrafterPlacement {
 public:
  struct Options {
    const BundleFile& bundle;  // for BundleUse::draft
    DeviceRequest device{};
    TreeShape tree;              // that is to be drafted
    std::uint32_t threads;       // of the CPU
    DType kv_type = DType::f32;  // of keys and values on a GPU that keeps such; f32 elsewhere
    std::shared_ptr<spdlog::logger> log{};
    std::shared_ptr<MemoryMeter> meter{};  // of all drafters' memory; its limit is kept
    std::uint64_t reserved = 0;            // of the limit: others have that
    std::uint32_t positions = 0;           // tokens of a conversation to draft in; 0: the context's
    std::uint32_t conversations = 1;       // at once
    // What is to be placed behind this one in the same memory needs for so many tokens.
    std::function<MemoryNeed(std::uint32_t positions)> beside{};
  };
  // Chooses and loads, in what memory there is for it: that may be enough for fewer conversations,
  // or fewer tokens of them, than are wanted, which is said in the log. The bundle outlives the
  // result. Throws DeviceError if no device can hold the drafter.
  //
  // Errors    of choose_device and fit_memory
  static Result<std::unique_ptr<DrafterPlacement>> choose(const Options& options);

  // What a drafter of the bundle holds on a device, and what is kept beside it for a second one.
  static MemoryNeed need_on(const ComputeDevice& device, const Options& options,
                            std::uint32_t positions);

  SharedDrafters& drafters() { return *drafters_; }
  // What it is placed for.
  std::uint32_t positions() const { return fit_.positions; }
  std::uint32_t conversations() const { return fit_.conversations; }
  // All 0 where the meter has no limit.
  const MemoryNeed& need() const { return fit_.need; }

  // Where conversations draft now, and why there. From any thread.
  struct Place {
    std::string id;    // "cpu", "vulkan:0"
    std::string name;  // the maker's
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

}  // namespace edgedraft
