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
    DeviceRequest device;
    TreeShape tree;         // that is to be drafted
    std::uint32_t threads;  // of the CPU
    std::shared_ptr<spdlog::logger> log;
  };
  // Chooses and loads. The bundle outlives the result. Throws DeviceError if no device can hold the
  // drafter.
  //
  // Errors    of choose_device
  static Result<std::unique_ptr<DrafterPlacement>> choose(const Options& options);

  SharedDrafters& drafters() { return *drafters_; }

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

  mutable std::mutex mutex_;
  Place place_;
  std::unique_ptr<SharedDrafters> drafters_;
};

}  // namespace edgedraft
