#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/devices/compute_device.h"
#include "client/devices/device_request.h"
#include "client/devices/step_timing.h"

namespace edgedraft {

struct DeviceChoice {
  ComputeDevice device;
  std::string reason;           // for the user
  bool is_second_best = false;  // what was asked for cannot be used
};

// How long a drafting step takes on a device.
// Errors    why it does not work there
using MeasureDevice = std::function<Result<StepTiming>(const ComputeDevice&)>;

// Picks from `devices`, the CPU first among them. `auto` takes the fastest; it measures only where
// there is a choice, and leaves software rasterisers alone, which are the CPU once more and slower.
// `vulkan` takes a discrete GPU before an integrated one, and so on; a rasteriser last.
//
// Errors    usage: no such device; lists what there is
Result<DeviceChoice> choose_device(const DeviceRequest& request,
                                   const std::vector<ComputeDevice>& devices,
                                   const MeasureDevice& measure);

}  // namespace edgedraft
