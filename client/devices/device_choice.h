#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/devices/compute_device.h"

namespace edgedraft::client {

// Value of --device.
struct DeviceRequest {
  enum class Kind : std::uint8_t {
    automatic,  // the fastest
    cpu,
    vulkan,
  };
  Kind kind = Kind::automatic;
  std::optional<std::uint32_t> index = {};  // N of vulkan:N; empty: the best
};

// Errors    usage naming the valid values
Result<DeviceRequest> parse_device_request(const std::string& text);

// Cost of a drafting step, one level of a tree, on a device.
struct StepTiming {
  double seconds;           // per level, averaged over a tree
  double bytes_per_second;  // rate of reading a level's weights
};

struct DeviceChoice {
  ComputeDevice device;
  std::string reason;           // for the user
  bool is_second_best = false;  // the requested device cannot be used
};

// Measures a drafting step on a device.
// Errors    why the device fails
using MeasureDevice = std::function<Result<StepTiming>(const ComputeDevice&)>;

// Picks one of `devices`, with the CPU first among them. `auto` takes the fastest. It measures only
// if there is a choice, and skips software rasterisers, which run on the CPU and are slower.
// `vulkan` prefers discrete GPUs, then integrated ones; rasterisers come last.
//
// Errors    usage: no such device; lists the available ones
Result<DeviceChoice> choose_device(const DeviceRequest& request,
                                   const std::vector<ComputeDevice>& devices,
                                   const MeasureDevice& measure);

}  // namespace edgedraft::client
