#pragma once

#include <cstdint>
#include <string>

namespace edgedraft::bench {

// What the processor can do at best, measured on the spot with the instructions that the kernels
// use, so that results are shares of something.
struct MachineLimits {
  std::string instruction_set;
  std::size_t threads;
  double read_bytes_per_second;        // from memory, all threads
  double float_operations_per_second;  // float32 multiplications and additions, all threads
  double int8_operations_per_second;   // the same of int8, with vector instructions
  double short_operations_per_second;  // with weights of six bits or fewer; 0: no other than those
  // Of int8 on whole tile registers (AMX), which no product reaches that is scaled every 32 inputs;
  // 0 without.
  double tile_operations_per_second;
  // Of bfloat16 on tile registers; a product with float32 activations takes three of them.
  double bf16_tile_operations_per_second;

  // Of the same machine at another time.
  void keep_best(const MachineLimits& other);
};

// Takes about a second. 0 threads: one a core.
MachineLimits measure_limits(std::uint32_t threads);

}  // namespace edgedraft::bench
