#include <map>
#include <mutex>
#include <utility>

#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

using KernelOnDevice = std::pair<const void*, int>;

// Static shared memory, which counts against the same limit.
cudaError_t declared_bytes(const KernelOnDevice& kernel, std::size_t& bytes_count) {
  thread_local std::map<KernelOnDevice, std::size_t> known;
  auto found = known.find(kernel);
  if (found == known.end()) {
    cudaFuncAttributes compiled{};
    const cudaError_t status = cudaFuncGetAttributes(&compiled, kernel.first);
    if (status != cudaSuccess) return status;
    found = known.emplace(kernel, compiled.sharedSizeBytes).first;
  }
  bytes_count = found->second;
  return cudaSuccess;
}

}  // namespace

cudaError_t block_memory_max(const void* kernel, std::size_t& bytes_count) {
  int device = 0;
  int limit = 0;
  std::size_t declared = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  if (status == cudaSuccess) status = declared_bytes({kernel, device}, declared);
  const auto all = static_cast<std::size_t>(limit);
  bytes_count = all < declared ? 0 : all - declared;
  return status;
}

cudaError_t allow_block_memory(const void* kernel, std::size_t bytes_count) {
  static std::mutex mutex;
  static std::map<KernelOnDevice, std::size_t> allowed;
  int device = 0;
  if (const cudaError_t status = cudaGetDevice(&device); status != cudaSuccess) return status;
  const std::lock_guard lock(mutex);
  std::size_t& most = allowed[{kernel, device}];
  if (bytes_count <= most) return cudaSuccess;
  const cudaError_t status = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes_count));
  if (status == cudaSuccess) most = bytes_count;
  return status;
}

}  // namespace edgedraft::cuda
