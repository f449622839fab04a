#include "tests/bench/bench_device.h"

#include "client/devices/device_request.h"

namespace edgedraft::bench {

Result<std::unique_ptr<MeasuredBackend>> open_vulkan_device(const std::string& device) {
  const auto request = parse_device_request(device);
  if (!request) return request.error();
  if (request->kind != DeviceRequest::Kind::vulkan) {
    return Error{Errc::usage, "--device " + device + ": give vulkan or vulkan:N here"};
  }
  if (request->index) return make_measured_vulkan_backend({.device = *request->index});
  for (const VulkanDevice& listed : list_vulkan_devices()) {
    if (listed.unusable.empty()) return make_measured_vulkan_backend({.device = listed.index});
  }
  return make_measured_vulkan_backend({});  // says what is missing
}

Result<std::unique_ptr<Backend>> open_device(const std::string& device, std::uint32_t threads) {
  if (device == "cpu") return make_cpu_backend({.threads = threads});
  auto opened = open_vulkan_device(device);
  if (!opened) return opened.error();
  return std::unique_ptr<Backend>(std::move(*opened));
}

}  // namespace edgedraft::bench
