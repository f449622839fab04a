#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/ops.h"

// Shared by all kernels. Everything also compiles for the host (docs/testing.md, "Kernels on the
// host"), so launches use the runtime's template instead of chevrons.
namespace edgedraft::cuda {

inline constexpr std::uint32_t kWarp = 32;
inline constexpr std::uint32_t kAllLanes = 0xFFFFFFFFu;

// --- launches ---

// If the device supports it, a kernel starts while earlier ones still run ("programmatic dependent
// launch"), which hides launch latency. So every kernel begins with take_turn(), or with its two
// parts and weight loads between them. Before its turn a kernel may only read weights, which were
// written long before.

// Waits until all earlier work has ended and is visible.
__device__ inline void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#elif !defined(__CUDACC__)
  cuda_host::wait_for_kernels_before();
#endif
}
// Lets the next kernel start and wait. Kernels that write weights do not call it.
__device__ inline void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void take_turn() {
  let_next_start();
  wait_for_previous_kernel();
}

// Attributes for an early launch: `attribute`, or none if the device, driver or toolkit does not
// support it, also within graphs. Also none if the kernel was compiled for an older device and
// therefore does not wait. A kernel translated at load time has the device's version, but the
// source's instructions. Returns their count.
unsigned early_start(const void* kernel, cudaLaunchAttribute& attribute);
// Maximum shared memory per block of the kernel on the current device.
[[nodiscard]] cudaError_t block_memory_max(const void* kernel, std::size_t& bytes_count);
// Allows launches of the kernel this much shared memory. The limit never shrinks, since recorded
// launches may need more than this one.
[[nodiscard]] cudaError_t allow_block_memory(const void* kernel, std::size_t bytes_count);

// Shared memory per block available on every device without opting in.
inline constexpr std::size_t kUsualBlockBytes = 48u << 10;

// `block_bytes`: size of block_memory() in the kernel. Returns an error if the device has less.
template <class Args>
cudaError_t launch(void (*kernel)(Args), dim3 grid, std::uint32_t threads, cudaStream_t stream,
                   const Args& args, std::size_t block_bytes = 0) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaSuccess;
  if (block_bytes > kUsualBlockBytes) {
    const cudaError_t status =
        allow_block_memory(reinterpret_cast<const void*>(kernel), block_bytes);
    if (status != cudaSuccess) return status;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = block_bytes;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  config.attrs = &attribute;
  config.numAttrs = early_start(reinterpret_cast<const void*>(kernel), attribute);
  return cudaLaunchKernelEx(&config, kernel, args);
}

// The launch's dynamic shared memory.
template <class T>
__device__ T& block_memory() {
  static_assert(alignof(T) <= alignof(uint4));
#if defined(__CUDACC__)
  extern __shared__ uint4 memory[];
#else
  void* const memory = cuda_host::block_memory();
#endif
  return *reinterpret_cast<T*>(memory);
}

__host__ __device__ constexpr std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) {
  return (a + b - 1) / b;
}

// --- numbers ---

__device__ inline float half_to_float(std::uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}
// To nearest, ties to even; overflow becomes infinity.
__device__ inline std::uint16_t float_to_half(float x) {
  return __half_as_ushort(__float2half_rn(x));
}
__device__ inline float bfloat16_to_float(std::uint16_t bits) {
  return __uint_as_float(std::uint32_t{bits} << 16);
}
__device__ inline std::uint16_t float_to_bfloat16(float x) {
  const std::uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
// Two of them in a word, `low` in its low half.
__device__ inline std::uint32_t bfloat16_pair(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return float_to_bfloat16(low) | std::uint32_t{float_to_bfloat16(high)} << 16;
#endif
}
// Nearest TF32 value (10 mantissa bits), ties away from zero, as float32.
__device__ inline float to_tf32(float x) {
  const std::uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7F800000u) == 0x7F800000u) return x;
  return __uint_as_float((bits + 0x1000u) & 0xFFFFE000u);
}

// Block of i8 (kCacheTypes) with element i of a row.
__device__ inline const std::byte* int8_block(const std::byte* row, std::size_t i) {
  return row + i / kInt8Block * kInt8BlockBytes;
}
// The sum of a product would otherwise be fused with it.
__device__ inline float int8_number(std::uint32_t level, float scale) {
  return __fmul_rn(static_cast<float>(static_cast<std::int8_t>(level & 0xFFu)), scale);
}
__device__ inline float int8_at(const std::byte* row, std::size_t i) {
  const std::byte* block = int8_block(row, i);
  const auto level = static_cast<std::uint32_t>(block[sizeof(float) + i % kInt8Block]);
  return int8_number(level, *reinterpret_cast<const float*>(block));
}
__device__ inline float cache_number(DType type, const std::byte* row, std::size_t i) {
  if (type == DType::f32) return reinterpret_cast<const float*>(row)[i];
  if (type == DType::i8) return int8_at(row, i);
  const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(row)[i];
  return type == DType::f16 ? half_to_float(bits) : bfloat16_to_float(bits);
}
// Finite values stay finite. Not for i8, whose blocks are stored at once (store.cu).
__device__ inline std::uint16_t float_to_limited_half(float x) {
  constexpr float kHalfMax = 65504.0f;
  const bool finite = fabsf(x) <= 3.4028234e38f;
  return float_to_half(finite ? fminf(fmaxf(x, -kHalfMax), kHalfMax) : x);
}
__device__ inline void set_cache_number(DType type, std::byte* row, std::size_t i, float x) {
  if (type == DType::f32) {
    reinterpret_cast<float*>(row)[i] = x;
  } else {
    reinterpret_cast<std::uint16_t*>(row)[i] =
        type == DType::f16 ? float_to_limited_half(x) : float_to_bfloat16(x);
  }
}
__device__ inline std::byte* cache_row(const Cache& cache, const std::uint32_t* pages,
                                       std::uint32_t slot) {
  std::size_t row = slot;
  if (pages != nullptr) {
    row = std::size_t{pages[slot / cache.page_slots]} * cache.page_slots + slot % cache.page_slots;
  }
  return cache.data + cache_bytes(cache.type, row * cache.stride);
}
__device__ inline std::byte* cache_row(const Cache& cache, std::uint32_t slot) {
  return cache_row(cache, cache.pages, slot);
}

// Bits in numeric order; NaN is lowest. Never zero.
__device__ inline std::uint32_t ordered_bits(float x) {
  const std::uint32_t bits = x != x ? 0xFF800000u : __float_as_uint(x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float from_ordered_bits(std::uint32_t ordered) {
  return __uint_as_float((ordered & 0x80000000u) != 0 ? ordered & 0x7FFFFFFFu : ~ordered);
}
// Larger for the larger value, then for the lower index; never zero. -0 equals +0, as in
// comparisons.
__device__ inline std::uint64_t choice_key(float x, std::uint32_t index) {
  return std::uint64_t{ordered_bits(x + 0.0f)} << 32 | static_cast<std::uint32_t>(~index);
}

// --- warps and blocks ---

// The sum in every lane, in a fixed order.
__device__ inline float warp_sum(float x) {
  for (std::uint32_t distance = kWarp / 2; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(kAllLanes, x, static_cast<int>(distance));
  }
  return x;
}
__device__ inline std::int32_t warp_sum(std::int32_t x, std::uint32_t lanes) {
  for (std::uint32_t distance = lanes / 2; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(kAllLanes, x, static_cast<int>(distance));
  }
  return x;
}
__device__ inline std::uint32_t warp_or(std::uint32_t x) {
  for (std::uint32_t distance = kWarp / 2; distance > 0; distance /= 2) {
    x |= __shfl_xor_sync(kAllLanes, x, static_cast<int>(distance));
  }
  return x;
}
__device__ inline float warp_max(float x) {
  for (std::uint32_t distance = kWarp / 2; distance > 0; distance /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, static_cast<int>(distance)));
  }
  return x;
}

__device__ inline std::uint32_t warp_max(std::uint32_t x) {
  for (std::uint32_t distance = kWarp / 2; distance > 0; distance /= 2) {
    const std::uint32_t other = __shfl_xor_sync(kAllLanes, x, static_cast<int>(distance));
    x = x > other ? x : other;
  }
  return x;
}

// The block's sum in every thread. `memory` is shared, one float per warp.
template <std::uint32_t kThreads>
__device__ float block_sum(float x, float* memory) {
  x = warp_sum(x);
  if (threadIdx.x % kWarp == 0) memory[threadIdx.x / kWarp] = x;
  __syncthreads();
  float total = 0.0f;
  for (std::uint32_t warp = 0; warp < kThreads / kWarp; ++warp) total += memory[warp];
  return total;
}

}  // namespace edgedraft::cuda
