#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "server/cuda/cuda_backend.h"

namespace edgedraft::server {
namespace {

constexpr int kCapabilityMin = 75;

}  // namespace

Result<std::vector<CudaDevice>> cuda_devices() {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return Error{Errc::unsupported, std::string("no CUDA device: ") + cudaGetErrorString(status) +
                                        "; check the driver with nvidia-smi"};
  }
  std::vector<CudaDevice> devices;
  std::string too_old;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    const int capability = 10 * properties.major + properties.minor;
    if (capability < kCapabilityMin) {
      too_old += std::string(", ") + properties.name;
      continue;
    }
    devices.push_back(
        {.index = index, .name = properties.name, .memory_bytes = properties.totalGlobalMem});
  }
  if (devices.empty()) {
    return Error{Errc::unsupported, "no CUDA device of compute capability 7.5 or newer" + too_old};
  }
  return devices;
}

}  // namespace edgedraft::server
