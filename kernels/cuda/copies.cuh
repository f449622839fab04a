#pragma once

#include "kernels/cuda/device.cuh"

// Asynchronous copies from global to shared memory. A thread closes its copies in groups and waits
// for them group by group. They are then visible to the thread itself, and after a barrier to its
// block. Devices before 8.0 lack these instructions and copy at once.
//
// Source    PTX ISA, "Asynchronous data copy", cp.async
namespace edgedraft::cuda {

// *to = *from, or zeros. `from` must be readable in either case.
template <class T>
__device__ inline void start_copy(T* to, const T* from, bool exists = true) {
  static_assert(sizeof(T) == alignof(T) && (sizeof(T) == 4 || sizeof(T) == 16));
#if !defined(__CUDACC__)
  cuda_host::start_copy(to, exists ? from : nullptr, sizeof(T));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  const std::uint32_t bytes_count = exists ? sizeof(T) : 0;
  if constexpr (sizeof(T) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(bytes_count)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from),
                 "r"(bytes_count)
                 : "memory");
  }
#else
  *to = exists ? *from : T{};
#endif
}

// Closes the group of copies started since the last call; it may be empty.
__device__ inline void close_copies() {
#if !defined(__CUDACC__)
  cuda_host::close_copies();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

inline constexpr std::uint32_t kOpenGroupsMax = 2;

// Waits for all groups but the newest `open`, at most kOpenGroupsMax.
__device__ inline void wait_for_copies(std::uint32_t open) {
#if !defined(__CUDACC__)
  cuda_host::wait_for_copies(open);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if (open == 0) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
  } else if (open == 1) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  } else {
    asm volatile("cp.async.wait_group 2;" ::: "memory");
  }
#endif
}

}  // namespace edgedraft::cuda
