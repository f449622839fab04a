#include "client/devices/device_choice.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft::client {
namespace {

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

std::string step_text(const StepTiming& timing) {
  return fmt::format("{:.2f} ms per drafting step", timing.seconds * 1e3);
}

// Smaller is better.
int rank(const ComputeDevice& device) {
  constexpr const char* kOrder[] = {"discrete", "integrated", "virtual", "other", "software"};
  const auto place = std::ranges::find(kOrder, device.kind);
  const int unusable = device.unusable.empty() ? 0 : 100;
  return unusable + static_cast<int>(place - std::begin(kOrder));
}

Error no_such_device(const std::string& asked, const std::vector<ComputeDevice>& devices) {
  std::vector<std::string> titles;
  for (const ComputeDevice& device : devices) titles.push_back(title(device));
  std::string message =
      "--device " + asked + ": no such device; available: " + joined(titles, ", ");
  if (devices.size() == 1) {
    message +=
        ". Vulkan needs a driver (on Debian mesa-vulkan-drivers or the GPU maker's) and the "
        "loader libvulkan1";
  }
  return {Errc::usage, message};
}

Result<DeviceChoice> choose_vulkan(const DeviceRequest& request,
                                   const std::vector<ComputeDevice>& devices) {
  const ComputeDevice* best = nullptr;
  for (const ComputeDevice& device : devices) {
    if (!device.vulkan_index || (request.index && device.vulkan_index != request.index)) continue;
    if (best == nullptr || rank(device) < rank(*best)) best = &device;
  }
  if (best == nullptr) {
    return no_such_device(request.index ? "vulkan:" + std::to_string(*request.index) : "vulkan",
                          devices);
  }
  if (!best->unusable.empty()) {
    return DeviceChoice{.device = devices.front(),
                        .reason = title(*best) + " cannot be used: " + best->unusable,
                        .is_second_best = true};
  }
  return DeviceChoice{.device = *best, .reason = "requested"};
}

// Returns why the CPU is the only choice.
std::string why_only_cpu(const std::vector<ComputeDevice>& devices) {
  std::vector<std::string> reasons;
  for (const ComputeDevice& device : devices) {
    if (!device.vulkan_index) continue;
    reasons.push_back(device.unusable.empty()
                          ? title(device) + " is a software rasteriser, used only with --device " +
                                device.id
                          : title(device) + " cannot be used: " + device.unusable);
  }
  return reasons.empty() ? "no Vulkan device found" : joined(reasons, "; ");
}

DeviceChoice choose_fastest(const std::vector<ComputeDevice>& devices,
                            const MeasureDevice& measure) {
  std::vector<const ComputeDevice*> candidates;
  for (const ComputeDevice& device : devices) {
    if (device.unusable.empty() && !device.is_software()) candidates.push_back(&device);
  }
  if (candidates.size() == 1) {
    return {.device = *candidates.front(), .reason = why_only_cpu(devices)};
  }
  struct Measured {
    const ComputeDevice* device;
    StepTiming timing;
  };
  std::vector<Measured> measured;
  std::vector<std::string> failed;
  for (const ComputeDevice* device : candidates) {
    const auto timing = measure(*device);
    if (timing) {
      measured.push_back({device, *timing});
    } else {
      failed.push_back(title(*device) + " failed: " + timing.error().message);
    }
  }
  if (measured.empty()) return {.device = devices.front(), .reason = joined(failed, "; ")};
  // Ties go to the CPU, which is first.
  const Measured best =
      *std::ranges::min_element(measured, {}, [](const Measured& m) { return m.timing.seconds; });
  std::vector<std::string> reasons{step_text(best.timing)};
  for (const Measured& other : measured) {
    if (other.device != best.device) {
      reasons.push_back(other.device->id + " takes " + step_text(other.timing));
    }
  }
  reasons.insert(reasons.end(), failed.begin(), failed.end());
  return {.device = *best.device, .reason = joined(reasons, "; ")};
}

}  // namespace

Result<DeviceRequest> parse_device_request(const std::string& text) {
  using Kind = DeviceRequest::Kind;
  if (text == "auto") return DeviceRequest{.kind = Kind::automatic};
  if (text == "cpu") return DeviceRequest{.kind = Kind::cpu};
  if (text == "vulkan") return DeviceRequest{.kind = Kind::vulkan};
  constexpr std::string_view kPrefix = "vulkan:";
  if (text.starts_with(kPrefix)) {
    std::uint32_t index = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + kPrefix.size(), end, index);
    if (parsed.ec == std::errc() && parsed.ptr == end) {
      return DeviceRequest{.kind = Kind::vulkan, .index = index};
    }
  }
  return Error{
      Errc::usage,
      "'" + text +
          "': expected auto, cpu, vulkan or vulkan:N; `edgedraft devices` lists the devices"};
}

Result<DeviceChoice> choose_device(const DeviceRequest& request,
                                   const std::vector<ComputeDevice>& devices,
                                   const MeasureDevice& measure) {
  EDGEDRAFT_CHECK(!devices.empty() && !devices.front().vulkan_index);
  if (request.kind == DeviceRequest::Kind::automatic) return choose_fastest(devices, measure);
  if (request.kind == DeviceRequest::Kind::vulkan) return choose_vulkan(request, devices);
  return DeviceChoice{.device = devices.front(), .reason = "requested"};
}

}  // namespace edgedraft::client
