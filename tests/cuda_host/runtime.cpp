#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

// The runtime's part of include/cuda_runtime.h.

namespace {

constexpr std::size_t kMemoryBytes = std::size_t{1} << 40;

std::uint64_t calls = 0;
std::uint64_t allocations = 0;
std::uint64_t failing_call = ~std::uint64_t{0};
cudaError_t failure = cudaSuccess;
int ptx_version = 90;
int device_count = 1;
int busy_devices = 0;
thread_local bool has_device = false;
std::uint64_t deviceless_calls = 0;

void count_device() {
  if (!has_device) ++deviceless_calls;
}

}  // namespace

struct CUevent_st {
  std::chrono::steady_clock::time_point when;
};

namespace edgedraft::cuda_host {

void fail_after(std::uint64_t count, cudaError_t error) {
  failing_call = calls + count;
  failure = error;
}

void set_ptx_version(int version) {
  ptx_version = version;
}

void set_devices(int count, int busy) {
  device_count = count;
  busy_devices = busy;
}

std::uint64_t deviceless_call_count() {
  return deviceless_calls;
}

std::uint64_t call_count() {
  return calls;
}

std::uint64_t allocation_count() {
  return allocations;
}

cudaError_t next_call() {
  count_device();
  return calls++ == failing_call ? failure : cudaSuccess;
}

}  // namespace edgedraft::cuda_host

using edgedraft::cuda_host::enqueue;
using edgedraft::cuda_host::next_call;
using edgedraft::cuda_host::outside_capture;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count;
  return next_call();
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= device_count) return cudaErrorInvalidDevice;
  *properties = {};
  std::strcpy(properties->name, "host");
  properties->totalGlobalMem = kMemoryBytes;
  properties->major = 9;
  properties->multiProcessorCount = 1;
  return next_call();
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count) return cudaErrorInvalidDevice;
  if (device < busy_devices) return cudaErrorDevicesUnavailable;
  has_device = true;
  return next_call();
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor
               ? 9
               : static_cast<int>(edgedraft::cuda_host::block_memory_bytes());
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {.sharedSizeBytes = 0, .ptxVersion = ptx_version, .binaryVersion = 90};
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int value) {
  if (const cudaError_t error = edgedraft::cuda_host::next_call(); error != cudaSuccess)
    return error;
  return value >= 0 && static_cast<std::size_t>(value) <= edgedraft::cuda_host::block_memory_bytes()
             ? cudaSuccess
             : cudaErrorInvalidValue;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return next_call();
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = kMemoryBytes;
  return next_call();
}

cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "cudaError";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return "an error";
  }
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return next_call();
}

cudaError_t cudaStreamDestroy(cudaStream_t) {
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) {
  if (const cudaError_t error = outside_capture(); error != cudaSuccess) return error;
  return next_call();
}

cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = outside_capture(); error != cudaSuccess) return error;
  return next_call();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (const cudaError_t error = next_call(); error != cudaSuccess) return error;
  *event = new CUevent_st{};
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->when = std::chrono::steady_clock::now();
  return next_call();
}

cudaError_t cudaEventSynchronize(cudaEvent_t) {
  if (const cudaError_t error = outside_capture(); error != cudaSuccess) return error;
  return next_call();
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = std::chrono::duration<float, std::milli>(to->when - from->when).count();
  return next_call();
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = nullptr;
  return next_call();
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return next_call();
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (const cudaError_t error = outside_capture(); error != cudaSuccess) return error;
  if (const cudaError_t error = next_call(); error != cudaSuccess) return error;
  ++allocations;
  *memory = nullptr;
  if (bytes > kMemoryBytes) return cudaErrorMemoryAllocation;
  // Same alignment as device memory.
  *memory = std::aligned_alloc(256, (std::max<std::size_t>(bytes, 1) + 255) / 256 * 256);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xFF, bytes);
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  count_device();
  if (const cudaError_t error = outside_capture(); error != cudaSuccess) return error;
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t) {
  return cudaMalloc(memory, bytes);
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
  return cudaFree(memory);
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return cudaMalloc(memory, bytes);
}

cudaError_t cudaFreeHost(void* memory) {
  return cudaFree(memory);
}

cudaError_t cudaMemsetAsync(void* memory, int byte, std::size_t bytes, cudaStream_t) {
  if (const cudaError_t error = next_call(); error != cudaSuccess) return error;
  return enqueue([=] {
    std::memset(memory, byte, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  if (const cudaError_t error = next_call(); error != cudaSuccess) return error;
  return enqueue([=] {
    std::memmove(to, from, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind, cudaStream_t) {
  if (const cudaError_t error = next_call(); error != cudaSuccess) return error;
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidValue;
  return enqueue([=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::memcpy(static_cast<char*>(to) + row * to_pitch,
                  static_cast<const char*>(from) + row * from_pitch, width);
    }
    return cudaSuccess;
  });
}
