#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#include "tests/cuda_host/lanes.h"

// The part of CUDA's runtime that kernels/cuda and server/cuda use, on the host. Device memory is
// host memory, streams run synchronously, and a kernel's threads are fibers (lanes.h). Names and
// semantics are CUDA's. It replaces the toolkit's header of that name on the include path.

#define __global__
#define __device__
#define __host__
#define __shared__ static  // blocks run one at a time, so the kernel can own the memory
#define __launch_bounds__(...)

// --- types ---

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
constexpr float2 make_float2(float x, float y) {
  return {x, y};
}
constexpr float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
constexpr int4 make_int4(int x, int y, int z, int w) {
  return {x, y, z, w};
}

// --- thread indices ---

#define threadIdx (::edgedraft::cuda_host::running().thread)
#define blockIdx (::edgedraft::cuda_host::running().block)

inline void __syncthreads() {
  edgedraft::cuda_host::wait_for_block();
}
inline void __syncwarp(unsigned = ~0u) {
  edgedraft::cuda_host::wait_for_warp();
}

template <class T>
T __shfl_sync(unsigned, T value, int source) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = edgedraft::cuda_host::exchange(bits, static_cast<unsigned>(source));
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return __shfl_sync(mask, value, static_cast<int>(threadIdx.x % 32) ^ lanes);
}
// Returns the lane's own value if there is no lane that far below.
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance) {
  const unsigned lane = threadIdx.x % 32;
  return __shfl_sync(mask, value, static_cast<int>(lane < distance ? lane : lane - distance));
}

inline float __uint_as_float(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline std::uint32_t __float_as_uint(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
// Byte i is the one of both words that the low three bits of nibble i select.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t both = std::uint64_t{y} << 32 | x;
  unsigned bytes = 0;
  for (unsigned i = 0; i < 4; ++i) {
    bytes |= static_cast<unsigned>(both >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
  }
  return bytes;
}
inline int __popcll(long long bits) {
  return __builtin_popcountll(static_cast<unsigned long long>(bits));
}
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) {
    c += static_cast<std::int8_t>(static_cast<unsigned>(a) >> (8 * i) & 255u) *
         static_cast<std::int8_t>(static_cast<unsigned>(b) >> (8 * i) & 255u);
  }
  return c;
}
inline unsigned atomicAdd(unsigned* to, unsigned value) {
  const unsigned old = *to;
  *to = old + value;
  return old;
}
inline unsigned long long atomicMax(unsigned long long* to, unsigned long long value) {
  const unsigned long long old = *to;
  if (value > old) *to = value;
  return old;
}

// --- the runtime ---

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaMemPool_t = struct CUmemPool_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };

struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  int major;
  int minor;
  int multiProcessorCount;
};
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
struct cudaFuncAttributes {
  std::size_t sharedSizeBytes;
  int ptxVersion;
  int binaryVersion;
};

#define CUDART_VERSION 13000
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaGetLastError();
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
// Fills the memory with NaNs.
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream);
cudaError_t cudaMallocHost(void** memory, std::size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemsetAsync(void* memory, int byte, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream);

// During a capture, kernels, copies and matmuls are recorded instead of run. Calls that would wait
// or allocate fail and invalidate the capture, as on a device.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

namespace edgedraft::cuda_host {

// Runs a stream's work, or records it.
cudaError_t enqueue(std::function<cudaError_t()> work);
// The error of a call that is forbidden during capture; success outside of one.
cudaError_t outside_capture();
// Graphs launched so far, and graphs alive.
std::uint64_t graph_launch_count();
std::uint64_t graph_count();

// The PTX version that kernels report, 10 * major + minor; initially 90.
void set_ptx_version(int version);

// The number of devices, of which the first `busy` are in exclusive use by other programs.
// Initially one free device.
void set_devices(int count, int busy);
// Calls so far by threads that had not set a device: CUDA uses the first device for them.
std::uint64_t deviceless_call_count();

// Fault injection: after `count` further calls, one call fails with this error.
void fail_after(std::uint64_t count, cudaError_t error);
// Fallible runtime calls so far.
std::uint64_t call_count();
// Calls so far that allocated memory.
std::uint64_t allocation_count();
// The injected error of this call, if one is due.
cudaError_t next_call();

}  // namespace edgedraft::cuda_host

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  if (const cudaError_t error = edgedraft::cuda_host::next_call(); error != cudaSuccess)
    return error;
  if (config->dynamicSmemBytes > edgedraft::cuda_host::block_memory_bytes()) {
    return cudaErrorInvalidValue;
  }
  const dim3& grid = config->gridDim;
  if (grid.y > 65535 || grid.z > 65535 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      config->blockDim.x == 0 || config->blockDim.x > 1024) {
    return cudaErrorInvalidConfiguration;
  }
  const std::tuple<Parameters...> copies(std::forward<Arguments>(arguments)...);
  return edgedraft::cuda_host::enqueue(
      [kernel, copies, grid, threads = config->blockDim.x, block_bytes = config->dynamicSmemBytes] {
        edgedraft::cuda_host::run_grid({grid.x, grid.y, grid.z}, threads, block_bytes,
                                       [&] { std::apply(kernel, copies); });
        return cudaSuccess;
      });
}
