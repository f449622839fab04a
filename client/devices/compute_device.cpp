#include "client/devices/compute_device.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <tuple>
#include <utility>

#include "client/vulkan/vulkan_backend.h"
#include "shared/base/fast_cores.h"
#include "shared/program/options.h"
#include "shared/runtime/planning_backend.h"

namespace edgedraft::client {
namespace {

// Returns the value of "key : " on its first line in /proc/cpuinfo; empty if there is none.
std::string cpu_info(const std::string& key) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    return line.substr(std::min(colon + 2, line.size()));
  }
  return {};
}

// Available instruction sets that determine drafting speed.
std::vector<std::string> cpu_features() {
  constexpr const char* kTelling[] = {"avx2",    "fma",         "f16c",     "avx_vnni",
                                      "avx512f", "avx512_vnni", "amx_int8", "amx_bf16",
                                      "asimd",   "asimddp",     "i8mm",     "sve"};
  std::istringstream words(cpu_info("flags") + " " + cpu_info("Features"));
  std::vector<std::string> features;
  for (std::string word; words >> word;) {
    if (std::ranges::find(kTelling, word) != std::end(kTelling)) features.push_back(word);
  }
  return features;
}

// Indexed by VulkanDevice::Kind.
constexpr const char* kKindNames[] = {"discrete", "integrated", "virtual", "software", "other"};

ComputeDevice gpu(const VulkanDevice& device) {
  ComputeDevice compute{.id = "vulkan:" + std::to_string(device.index),
                        .name = device.name,
                        .driver = device.driver,
                        .kind = kKindNames[static_cast<std::size_t>(device.kind)],
                        .memory_bytes = device.memory_bytes,
                        .features = {"Vulkan " + device.api_version},
                        .unusable = device.unusable,
                        .vulkan_index = device.index,
                        .rounds_activations = device.used.integer_dot,
                        .keeps_f16 = device.used.narrow_storage};
  // Per feature: whether the device has it, whether drafting uses it, and its name.
  const std::tuple<bool, bool, const char*> features[] = {
      {device.features.narrow_storage, device.used.narrow_storage, "8- and 16-bit storage"},
      {device.features.float16, device.used.float16, "float16"},
      {device.features.integer_dot, device.used.integer_dot, "integer dot product"},
      {device.features.subgroups, device.used.subgroups, "subgroup exchange"},
  };
  for (const auto& [is_there, is_used, name] : features) {
    if (is_there) compute.features.push_back(name + std::string(is_used ? " (used)" : " (unused)"));
  }
  if (device.timestamps) compute.features.push_back("timestamps");
  compute.features.push_back("subgroups of " + std::to_string(device.subgroup_width));
  return compute;
}

}  // namespace

ComputeDevice cpu_device(std::uint32_t threads) {
  const std::uint32_t count = threads > 0 ? threads : fast_cores();
  const std::string name = cpu_info("model name");
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  return {.id = "cpu",
          .name = name.empty() ? "CPU" : name,
          .driver = std::to_string(count) + (count == 1 ? " thread" : " threads"),
          .kind = "cpu",
          .memory_bytes = pages > 0 && page_bytes > 0 ? static_cast<std::uint64_t>(pages) *
                                                            static_cast<std::uint64_t>(page_bytes)
                                                      : 0,
          .features = cpu_features(),
          .unusable = {},
          .vulkan_index = {}};
}

std::vector<ComputeDevice> list_compute_devices(std::uint32_t threads) {
  std::vector<ComputeDevice> devices{cpu_device(threads)};
  for (const VulkanDevice& device : list_vulkan_devices()) devices.push_back(gpu(device));
  return devices;
}

Result<std::unique_ptr<Backend>> make_backend(const ComputeDevice& device, std::uint32_t threads,
                                              std::shared_ptr<MemoryMeter> meter) {
  if (!device.unusable.empty()) {
    return Error{Errc::unsupported, title(device) + " cannot be used: " + device.unusable};
  }
  if (!device.vulkan_index) {
    return make_cpu_backend(
        {.threads = threads, .meter = std::move(meter), .drafter_cache_type = device.kv_type});
  }
  auto backend = make_vulkan_backend({.device = *device.vulkan_index,
                                      .cache_directory = cache_directory(),
                                      .validate = false,
                                      .kv_type = device.kv_type,
                                      .meter = std::move(meter)});
  if (!backend) return backend.error();
  return std::unique_ptr<Backend>(*std::move(backend));
}

Result<std::unique_ptr<Backend>> plan_backend(const ComputeDevice& device, std::uint32_t threads) {
  if (!device.vulkan_index)
    return plan_cpu_backend({.threads = threads, .drafter_cache_type = device.kv_type});
  return plan_vulkan_backend(VulkanFeatures{.integer_dot = device.rounds_activations},
                             device.kv_type);
}

std::string title(const ComputeDevice& device) {
  return device.id + " (" + device.name + ")";
}

}  // namespace edgedraft::client
