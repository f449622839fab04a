#pragma once

#include "kernels/cuda/ops.h"
#include "server/cuda/cuda_memory.h"
#include "shared/base/check.h"
#include "shared/runtime/backend.h"

// Kernel views of operation arguments: device pointers, checked against their buffers.
namespace edgedraft::server {

inline cuda::Heads heads_of(const HeadShape& heads) {
  return {.kv_heads = heads.kv_heads,
          .group = heads.query_heads / heads.kv_heads,
          .head_dim = heads.head_dim};
}

// Pointer to the first element.
float* device_data(const Matrix& m);
std::byte* device_data(const CacheRows& m);
inline cuda::Rows device_rows(const Matrix& m) {
  return {device_data(m), m.stride};
}
inline cuda::ConstRows device_const_rows(const Matrix& m) {
  return {device_data(m), m.stride};
}

// In file order; null for an absent weight.
const std::byte* device_data(const Weight& w);
const float* device_floats(const Weight& w);
// A matmul's weight, in its type's storage order.
const std::byte* device_matrix(const Weight& w);

}  // namespace edgedraft::server
