#pragma once

#include "kernels/cuda/device.cuh"

// Shared by row operations that read and write pieces of four elements, one warp per group of 128.
// Lane l has the group's elements 4 l..4 l + 3.
namespace edgedraft::cuda {

inline constexpr std::uint32_t kPiece = kGroup / kWarp;
static_assert(kPiece == 4);

// Index of this lane's piece of a group.
__device__ inline std::uint32_t piece_place(std::uint32_t group) {
  return group * kGroup + threadIdx.x % kWarp * kPiece;
}

// True if a row consists of whole aligned pieces.
__device__ inline bool in_pieces(const float* row, std::uint32_t cols) {
  return cols % kPiece == 0 && reinterpret_cast<std::uintptr_t>(row) % sizeof(float4) == 0;
}

// Elements i.. of a row, zeros past its end. `whole`: in_pieces(row, cols).
__device__ inline float4 piece_of(const float* row, std::uint32_t i, std::uint32_t cols,
                                  bool whole) {
  if (whole) {
    return i < cols ? *reinterpret_cast<const float4*>(row + i)
                    : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  const auto number = [&](std::uint32_t at) { return at < cols ? row[at] : 0.0f; };
  return make_float4(number(i), number(i + 1), number(i + 2), number(i + 3));
}

// A group below this counts as zeros: its inverse would overflow.
inline constexpr float kSmallest = 7.888609052210118e-31f;  // 2^-100

// Rounds a group of row r of `rows` to int8: this lane's piece, zeros past the row's end. All lanes
// of a warp take part. Bytes are in fragment order (mma.cuh): bytes 4 t.. and 16 + 4 t.. of each of
// four blocks are adjacent.
__device__ inline void quantize_group(const QuantizedRows& to, std::uint32_t rows, std::size_t r,
                                      std::uint32_t group, const float4& piece) {
  const float x[kPiece] = {piece.x, piece.y, piece.z, piece.w};
  float largest = 0.0f;
  float poison = 0.0f;  // NaN if an element is infinite or NaN
#pragma unroll
  for (std::uint32_t i = 0; i < kPiece; ++i) {
    largest = fmaxf(largest, fabsf(x[i]));
    poison += x[i] * 0.0f;
  }
  largest = warp_max(largest);
  poison = warp_sum(poison);
  const bool is_zero = largest < kSmallest;
  const float inverse = is_zero ? 0.0f : 127.0f / largest;

  std::uint32_t bytes = 0;
  std::int32_t sum = 0;
#pragma unroll
  for (std::uint32_t i = 0; i < kPiece; ++i) {
    const float level = rintf(x[i] * inverse);
    // Any value for a non-finite element: the scale is NaN.
    const auto q = static_cast<std::int32_t>(fminf(fmaxf(level, -127.0f), 127.0f));
    bytes |= (static_cast<std::uint32_t>(q) & 255u) << (8 * i);
    sum += q;
  }
  sum = warp_sum(sum, 8);

  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t block = lane / 8;
  const std::uint32_t half = lane % 8 / 4;
  const std::uint32_t t = lane % 4;
  const std::size_t index = std::size_t{group} * rows + r;
  auto* words = reinterpret_cast<std::uint32_t*>(to.values + index * kGroup);
  words[t * 8 + block * 2 + half] = bytes;
  if (lane % 8 == 0) to.sums[index * 4 + block] = static_cast<float>(sum);
  if (lane == 0) to.scales[index] = (is_zero ? 0.0f : largest / 127.0f) + poison;
}

}  // namespace edgedraft::cuda
