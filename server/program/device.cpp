#include "server/program/device.h"

#include <unistd.h>

#include <charconv>
#include <optional>

#if EDGEDRAFT_HAS_CUDA
#include "server/cuda/cuda_backend.h"
#endif

namespace edgedraft {
namespace {

std::uint64_t host_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return 0;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
}

OpenedDevice on_cpu(const DeviceOptions& options, std::string reason) {
  return {.backend = make_cpu_backend({.threads = options.threads}),
          .reason = std::move(reason),
          .memory_bytes = host_memory_bytes(),
          .upload = nullptr};
}

// The N of cuda:N; nothing for cuda alone.
Result<std::optional<int>> device_index(const std::string& device) {
  if (device == "cuda") return std::optional<int>();
  constexpr std::string_view kPrefix = "cuda:";
  int index = 0;
  const char* end = device.data() + device.size();
  if (device.starts_with(kPrefix)) {
    const auto [rest, error] = std::from_chars(device.data() + kPrefix.size(), end, index);
    if (error == std::errc() && rest == end && index >= 0) return std::optional(index);
  }
  return Error{Errc::usage, "--device " + device +
                                ": give auto, cpu, cuda or the number of a GPU, as in cuda:0"};
}

#if EDGEDRAFT_HAS_CUDA

Result<OpenedDevice> on_cuda(const DeviceOptions& options, std::optional<int> index) {
  const auto devices = cuda_devices();
  if (!devices) return devices.error();
  const CudaDevice* chosen = index ? nullptr : &devices->front();
  std::string there;
  for (const CudaDevice& device : *devices) {
    if (index == device.index) chosen = &device;
    there += (there.empty() ? "" : ", ") + std::to_string(device.index) + " (" + device.name + ")";
  }
  if (chosen == nullptr) {
    return Error{Errc::unsupported,
                 "--device " + options.device + ": no such GPU; there is " + there};
  }
  CudaBackendOptions cuda{.device = chosen->index,
                          .deterministic = options.deterministic,
                          .graphs = options.cuda_graphs,
                          .on_notice = options.on_notice};
  auto upload = std::make_shared<Progress>(options.upload_label, options.upload_bytes);
  cuda.on_upload = [line = std::weak_ptr(upload)](std::uint64_t bytes) {
    if (const auto shown = line.lock()) shown->advance(bytes);
  };
  try {
    return OpenedDevice{.backend = make_cuda_backend(cuda),
                        .reason = "cuda:" + std::to_string(chosen->index) + ", " + chosen->name +
                                  ", " + std::to_string(chosen->memory_bytes >> 20) + " MiB" +
                                  (options.deterministic ? ", deterministic" : "") +
                                  (options.cuda_graphs ? "" : ", without graphs"),
                        .memory_bytes = chosen->memory_bytes,
                        .upload = std::move(upload)};
  } catch (const DeviceError& e) {
    return Error{Errc::unsupported, "--device " + options.device + ": " + e.what()};
  }
}

#else

Result<OpenedDevice> on_cuda(const DeviceOptions&, std::optional<int>) {
  return Error{Errc::unsupported,
               "this build has no CUDA: install the CUDA toolkit and build again with "
               "-DEDGEDRAFT_CUDA=ON, or give --device cpu"};
}

#endif

}  // namespace

Result<OpenedDevice> open_device(const DeviceOptions& options) {
  if (options.device == "cpu") return on_cpu(options, "cpu, as asked");
  if (options.device == "auto") {
    auto cuda = on_cuda(options, {});
    if (cuda) return cuda;
    return on_cpu(options, "cpu: " + cuda.error().message);
  }
  const auto index = device_index(options.device);
  if (!index) return index.error();
  return on_cuda(options, *index);
}

}  // namespace edgedraft
