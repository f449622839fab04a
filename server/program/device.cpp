#include "server/program/device.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "kernels/cpu/ops.h"
#include "server/program/memory_limit.h"

#if EDGEDRAFT_HAS_CUDA
#include "server/cuda/cuda_backend.h"
#endif

namespace edgedraft::server {
namespace {

// Vector widths do not change a bit; the x86 baseline and tiles do (instruction_set_test.cpp).
std::string cpu_arithmetic() {
  const cpu::Kernels& kernels = cpu::best_kernels();
  if (std::string_view(kernels.name) == "baseline") return "cpu baseline";
  return kernels.tile_matmul != nullptr ? "cpu with tiles" : "cpu";
}

OpenedDevice on_cpu(const DeviceOptions& options, std::string reason) {
  return {.backend = make_cpu_backend(
              {.threads = options.threads, .expert_bytes = usable_memory_bytes() / 2}),
          .reason = std::move(reason),
          .arithmetic = cpu_arithmetic(),
          .memory_bytes = usable_memory_bytes(),
          .scratch_bytes = 0,
          .upload = nullptr};
}

// The N of cuda:N; empty for plain cuda.
Result<std::optional<int>> device_index(const std::string& device) {
  if (device == "cuda") return std::optional<int>();
  constexpr std::string_view kPrefix = "cuda:";
  int index = 0;
  const char* end = device.data() + device.size();
  if (device.starts_with(kPrefix)) {
    const auto [rest, error] = std::from_chars(device.data() + kPrefix.size(), end, index);
    if (error == std::errc() && rest == end && index >= 0) return std::optional(index);
  }
  return Error{Errc::usage,
               "--device " + device + ": give auto, cpu, cuda or cuda:N, such as cuda:0"};
}

#if EDGEDRAFT_HAS_CUDA

std::string name_of(const CudaDevice& device) {
  return "cuda:" + std::to_string(device.index) + ", " + device.name;
}

// Throws DeviceError
OpenedDevice open_cuda(const DeviceOptions& options, const CudaDevice& device) {
  auto upload = std::make_shared<Progress>(options.upload_label, options.upload_bytes);
  const CudaBackendOptions cuda{.device = device.index,
                                .deterministic = options.deterministic,
                                .graphs = options.cuda_graphs,
                                .on_notice = options.on_notice,
                                .on_upload = [line = std::weak_ptr(upload)](std::uint64_t bytes) {
                                  if (const auto shown = line.lock()) shown->advance(bytes);
                                }};
  return {.backend = make_cuda_backend(cuda),
          .reason = name_of(device) + ", " + std::to_string(device.memory_bytes >> 20) + " MiB" +
                    (options.deterministic ? ", deterministic" : "") +
                    (options.cuda_graphs ? "" : ", without CUDA graphs"),
          .arithmetic = device.name + (options.deterministic ? ", deterministic" : ""),
          .memory_bytes = device.memory_bytes,
          .scratch_bytes = cuda.attention_scratch_bytes,
          .upload = std::move(upload)};
}

// The device of that index, or the first usable one.
Result<OpenedDevice> on_cuda(const DeviceOptions& options, std::optional<int> index) {
  const auto devices = cuda_devices();
  if (!devices) return devices.error();
  std::string there;
  std::string unusable;
  for (const CudaDevice& device : *devices) {
    there += (there.empty() ? "" : ", ") + std::to_string(device.index) + " (" + device.name + ")";
    if (index && *index != device.index) continue;
    try {
      OpenedDevice opened = open_cuda(options, device);
      if (!unusable.empty()) opened.reason += "; not " + unusable;
      return opened;
    } catch (const DeviceError& e) {
      unusable += (unusable.empty() ? "" : "; ") + name_of(device) + ": " + e.what();
    }
  }
  return Error{Errc::unsupported,
               "--device " + options.device + ": " +
                   (unusable.empty() ? "no such GPU; available: " + there : unusable)};
}

#else

Result<OpenedDevice> on_cuda(const DeviceOptions&, std::optional<int>) {
  return Error{Errc::unsupported,
               "this build does not support CUDA: install the CUDA toolkit and build again with "
               "-DEDGEDRAFT_CUDA=ON, or give --device cpu"};
}

#endif

}  // namespace

Result<OpenedDevice> open_device(const DeviceOptions& options) {
  if (options.device == "cpu") return on_cpu(options, "cpu, as requested");
  if (options.device == "auto") {
    auto cuda = on_cuda(options, {});
    if (cuda) return cuda;
    return on_cpu(options, "cpu: " + cuda.error().message);
  }
  const auto index = device_index(options.device);
  if (!index) return index.error();
  return on_cuda(options, *index);
}

}  // namespace edgedraft::server
