#pragma once

#include "kernels/cuda/ops.h"
#include "server/cuda/cuda_memory.h"
#include "shared/base/check.h"
#include "shared/runtime/backend.h"

// What operations speak of, as kernels take it: device pointers, checked against their buffers.
namespace edgedraft {

// Values of DType and WeightType are the same, and so are those of CacheType as far as these go.
inline cuda::WeightType weight_type(DType type) {
  static_assert(static_cast<int>(DType::q8_0) == static_cast<int>(cuda::WeightType::q8_0));
  static_assert(static_cast<int>(DType::q6_k) == static_cast<int>(cuda::WeightType::q6_k));
  return static_cast<cuda::WeightType>(type);
}
inline cuda::CacheType cache_type(DType type) {
  static_assert(static_cast<int>(DType::bf16) == static_cast<int>(cuda::CacheType::bf16));
  EDGEDRAFT_CHECK(is_cache_type(type));
  return static_cast<cuda::CacheType>(type);
}
inline bool is_float(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

inline cuda::Heads heads_of(const HeadShape& heads) {
  return {.kv_heads = heads.kv_heads,
          .group = heads.query_heads / heads.kv_heads,
          .head_dim = heads.head_dim};
}

// The first number.
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
// A weight of a product, in whatever order its type is kept in.
const std::byte* device_matrix(const Weight& w);

}  // namespace edgedraft
