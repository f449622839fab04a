#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cpu/ops.h"
#include "shared/runtime/host_backend.h"
#include "shared/runtime/thread_pool.h"

namespace edgedraft::bench {

// The processor's limits, measured in place with the instructions of the kernels, so that results
// can be given as shares of them.
struct MachineLimits {
  std::string instruction_set;
  std::size_t threads;
  double read_bytes_per_second;        // from memory, all threads
  double float_operations_per_second;  // float32 multiplications and additions, all threads
  double int8_operations_per_second;   // int8, with vector instructions
  double short_operations_per_second;  // with weights of six bits or fewer; 0: same as int8
  // int8 on tile registers (AMX); 0 without. A matmul that is scaled every 32 inputs cannot reach
  // it.
  double tile_operations_per_second;
  // bfloat16 on tile registers; a matmul with float32 activations needs three per operation.
  double bf16_tile_operations_per_second;
};

// On a shared machine the capacity varies, so this reports both the best and the current limits.
class LimitMeter {
 public:
  // Measures with the instructions of `kernels` on `threads` threads; 0: one per fast core.
  // Allocates half a gigabyte to read.
  LimitMeter(const cpu::Kernels& kernels, std::uint32_t threads);
  // Measures the best of many short tries, the undisturbed machine. Takes about a second.
  void measure();
  // The best of all calls of measure().
  const MachineLimits& best() const { return best_; }
  // The current limits: means over `duration` seconds, alternating reads and computation.
  // Requires  an earlier measure(), which finds the fastest way to read
  MachineLimits sample(double duration);

 private:
  const std::byte* next_slice();

  const cpu::Kernels& kernels_;
  ThreadPool pool_;
  std::unique_ptr<HostBuffer> memory_;
  std::size_t slice_ = 0;
  std::size_t best_chunk_bytes_ = 0;
  MachineLimits best_{};
};

}  // namespace edgedraft::bench
