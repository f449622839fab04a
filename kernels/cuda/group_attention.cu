#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 128;
constexpr std::uint32_t kWarps = kThreads / kWarp;

// One block per query head of a group; each warp takes rows in turn. It computes scores with one
// lane per slot, then weighted values with one lane per dimension, in slot order.
__global__ void group_attention_kernel(GroupAttentionArgs a) {
  take_turn();
  __shared__ float memory[kWarps][kGroupRowsMax];
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t warp = threadIdx.x / kWarp;
  const std::uint32_t head_dim = a.heads.head_dim;
  const std::uint32_t kv_offset = blockIdx.x / a.heads.group * head_dim;
  const std::size_t first = std::size_t{blockIdx.y} * a.group_rows;
  const float* keys = a.k.data + first * a.k.stride + kv_offset;
  const float* values = a.v.data + first * a.v.stride + kv_offset;
  const float scale = 1.0f / sqrtf(static_cast<float>(head_dim));
  float* weights = memory[warp];

  for (std::uint32_t row = warp; row < a.group_rows; row += kWarps) {
    const float* query = a.q.data + (first + row) * a.q.stride + blockIdx.x * head_dim;
    float largest = -INFINITY;
    for (std::uint32_t slot = lane; slot < a.group_rows; slot += kWarp) {
      float score = 0.0f;
      for (std::uint32_t d = 0; d < head_dim; ++d) {
        score = fmaf(query[d] * scale, keys[slot * a.k.stride + d], score);
      }
      weights[slot] = score;
      largest = fmaxf(largest, score);
    }
    largest = warp_max(largest);
    float sum = 0.0f;
    for (std::uint32_t slot = lane; slot < a.group_rows; slot += kWarp) {
      const float weight = expf(weights[slot] - largest);
      weights[slot] = weight;
      sum += weight;
    }
    sum = warp_sum(sum);
    __syncwarp();
    float* y = a.y.data + (first + row) * a.y.stride + blockIdx.x * head_dim;
    for (std::uint32_t d = lane; d < head_dim; d += kWarp) {
      float value = 0.0f;
      for (std::uint32_t slot = 0; slot < a.group_rows; ++slot) {
        value = fmaf(weights[slot], values[slot * a.v.stride + d], value);
      }
      y[d] = value / sum;
    }
    __syncwarp();
  }
}

}  // namespace

cudaError_t group_attention(const GroupAttentionArgs& args, cudaStream_t stream) {
  if (args.group_rows > kGroupRowsMax) return cudaErrorInvalidValue;
  return launch(group_attention_kernel, dim3(args.heads.kv_heads * args.heads.group, args.groups),
                kThreads, stream, args);
}

}  // namespace edgedraft::cuda
