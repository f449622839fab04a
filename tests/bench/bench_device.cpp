#include "tests/bench/bench_device.h"

#include <charconv>

namespace edgedraft::bench {

Result<std::unique_ptr<MeasuredBackend>> open_vulkan_device(const std::string& device) {
  const Error unknown{Errc::usage, "--device " + device + " is none of cpu, vulkan and vulkan:N"};
  const std::string prefix = "vulkan:";
  if (device == "vulkan") {
    for (const VulkanDevice& listed : list_vulkan_devices()) {
      if (listed.unusable.empty()) return make_measured_vulkan_backend({.device = listed.index});
    }
    return make_measured_vulkan_backend({});  // says what is missing
  }
  if (!device.starts_with(prefix)) return unknown;
  std::uint32_t index = 0;
  const char* end = device.data() + device.size();
  const auto parsed = std::from_chars(device.data() + prefix.size(), end, index);
  if (parsed.ec != std::errc() || parsed.ptr != end) return unknown;
  return make_measured_vulkan_backend({.device = index});
}

Result<std::unique_ptr<Backend>> open_device(const std::string& device, std::uint32_t threads) {
  if (device == "cpu") return make_cpu_backend({.threads = threads});
  auto opened = open_vulkan_device(device);
  if (!opened) return opened.error();
  return std::unique_ptr<Backend>(std::move(*opened));
}

}  // namespace edgedraft::bench
