#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "client/devices/device_choice.h"
#include "shared/drafting/memory_need.h"

namespace edgedraft::client {

// A device and its measurement.
struct ListedDevice {
  ComputeDevice device;
  std::optional<StepTiming> timing;
  std::string failure;             // why a requested timing is missing
  std::optional<MemoryNeed> need;  // memory of the drafter on it, if one is given
};

struct DeviceList {
  std::vector<ListedDevice> devices;
  std::optional<DeviceChoice> automatic;  // absent if it depends on the drafter
};

// Measures every usable device if `measure` is given; it requires a bundle.
DeviceList make_device_list(const std::vector<ComputeDevice>& devices,
                            const std::optional<MeasureDevice>& measure);

// Prints the list for people; to_json() returns one JSON object.
void print(const DeviceList& list, std::ostream& out);
std::string to_json(const DeviceList& list);

}  // namespace edgedraft::client
