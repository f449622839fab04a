#include "tests/bench/bench_device.h"

#include <sstream>

#include "client/devices/device_choice.h"

namespace edgedraft::bench {
using namespace client;
namespace {

// The first usable device; 0 if there is none, so that opening it reports the cause.
std::uint32_t first_usable(const std::vector<VulkanDevice>& devices) {
  for (const VulkanDevice& device : devices) {
    if (device.unusable.empty()) return device.index;
  }
  return 0;
}

Result<VulkanFeatures> parse_features(const std::string& text) {
  VulkanFeatures features;
  std::istringstream names(text);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == "narrow_storage") {
      features.narrow_storage = true;
    } else if (name == "float16") {
      features.float16 = true;
    } else if (name == "integer_dot") {
      features.integer_dot = true;
    } else if (name == "subgroups") {
      features.subgroups = true;
    } else {
      return Error{Errc::usage, "--features " + text + ": unknown feature; " + kFeaturesHelp};
    }
  }
  return features;
}

}  // namespace

Result<std::unique_ptr<MeasuredBackend>> open_vulkan_device(const std::string& device,
                                                            const std::string& features,
                                                            DType kv_type) {
  const auto request = parse_device_request(device);
  if (!request) return request.error();
  if (request->kind != DeviceRequest::Kind::vulkan) {
    return Error{Errc::usage, "--device " + device + ": give vulkan or vulkan:N"};
  }
  const std::vector<VulkanDevice> devices = list_vulkan_devices();
  VulkanBackendOptions options{.device = request->index.value_or(first_usable(devices)),
                               .kv_type = kv_type};
  if (features == "none") {
    options.features = VulkanFeatures{};
  } else if (features == "all" && options.device < devices.size()) {
    options.features = devices[options.device].features;
  } else if (features != "auto" && features != "all") {
    const auto parsed = parse_features(features);
    if (!parsed) return parsed.error();
    options.features = *parsed;
  }
  return make_vulkan_backend(options);
}

Result<std::unique_ptr<Backend>> open_drafter_device(const std::string& device,
                                                     const std::string& features,
                                                     std::uint32_t threads, DType kv_type) {
  if (device == "cpu") return make_cpu_backend({.threads = threads});
  auto opened = open_vulkan_device(device, features, kv_type);
  if (!opened) return opened.error();
  return std::unique_ptr<Backend>(std::move(*opened));
}

}  // namespace edgedraft::bench
