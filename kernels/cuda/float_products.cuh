#pragma once

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/products.cuh"

// Shared by the kernels for few and for many rows, with 16-bit weights in rows of whole 16-byte
// pieces: how eight inputs are multiplied. The input order within an instruction differs from
// memory order, alike for weights and activations.
namespace edgedraft::cuda {

// For many rows. Uses the narrow kernel if the device has too little shared memory or activations
// are unaligned (matmul_wide.cu).
cudaError_t wide_matmul(const MatmulArgs& args, ProductKernel kernel, cudaStream_t stream);
// For few rows, or 32 rows at a time.
cudaError_t narrow_matmul(const MatmulArgs& args, cudaStream_t stream);

namespace float_detail {

inline constexpr std::uint32_t kPiece = 8;          // elements per 16 bytes
inline constexpr std::uint32_t kStep = 4 * kPiece;  // inputs per four lanes
inline constexpr std::uint32_t kSteps = 2;          // loaded at once
inline constexpr std::uint32_t kInputs = kSteps * kStep;

// Eight inputs' weights of rows g and g + 8 of two tiles.
using TileWeights = uint4[2][2];

// Both functions below add the products of eight activations of a column with such weights.
// Operands of matrix instructions are less precise than float32, so an activation is split into
// terms; the smallest is added first.

// bfloat16: three terms hold the whole mantissa, and weights are used as stored.
__device__ inline void multiply_bfloat16(const float (&x)[kPiece], const TileWeights& weights,
                                         float (&upper)[4], float (&lower)[4]) {
  constexpr std::uint32_t kNumbers = 3;
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    std::uint32_t b[kNumbers][2];
#pragma unroll
    for (std::uint32_t pair = 0; pair < 2; ++pair) {
      std::uint32_t terms[kNumbers];
      split_numbers(x[4 * half + 2 * pair], x[4 * half + 2 * pair + 1], terms);
#pragma unroll
      for (std::uint32_t i = 0; i < kNumbers; ++i) b[i][pair] = terms[i];
    }
#pragma unroll
    for (std::uint32_t m = 0; m < 2; ++m) {
      const std::uint32_t w[4] = {
          word_of(weights[m][0], 2 * half), word_of(weights[m][1], 2 * half),
          word_of(weights[m][0], 2 * half + 1), word_of(weights[m][1], 2 * half + 1)};
#pragma unroll
      for (std::uint32_t i = kNumbers; i-- > 0;) mma_bfloat16(m == 0 ? upper : lower, w, b[i]);
    }
  }
}

// Activations exceed float16's range: two TF32 terms, a format that holds float16 weights exactly.
__device__ inline void multiply_float16(const float (&x)[kPiece], const TileWeights& weights,
                                        float (&upper)[4], float (&lower)[4]) {
  const auto tf32 = [](std::uint32_t half) {
    return __float_as_uint(half_to_float(static_cast<std::uint16_t>(half & 0xFFFFu)));
  };
#pragma unroll
  for (std::uint32_t pair = 0; pair < kPiece / 2; ++pair) {
    const float high[2] = {to_tf32(x[2 * pair]), to_tf32(x[2 * pair + 1])};
    const std::uint32_t b_high[2] = {__float_as_uint(high[0]), __float_as_uint(high[1])};
    const std::uint32_t b_low[2] = {__float_as_uint(to_tf32(x[2 * pair] - high[0])),
                                    __float_as_uint(to_tf32(x[2 * pair + 1] - high[1]))};
#pragma unroll
    for (std::uint32_t m = 0; m < 2; ++m) {
      const std::uint32_t at_g = word_of(weights[m][0], pair);
      const std::uint32_t below = word_of(weights[m][1], pair);
      const std::uint32_t w[4] = {tf32(at_g), tf32(below), tf32(at_g >> 16), tf32(below >> 16)};
      mma_tf32(m == 0 ? upper : lower, w, b_low);
      mma_tf32(m == 0 ? upper : lower, w, b_high);
    }
  }
}

// By the weights' type.
template <DType kType>
__device__ void multiply(const float (&x)[kPiece], const TileWeights& weights, float (&upper)[4],
                         float (&lower)[4]) {
  if constexpr (kType == DType::bf16) {
    multiply_bfloat16(x, weights, upper, lower);
  } else {
    multiply_float16(x, weights, upper, lower);
  }
}

__host__ __device__ inline bool is_aligned(const ConstRows& x) {
  return x.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}

}  // namespace float_detail
}  // namespace edgedraft::cuda
