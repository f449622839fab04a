#pragma once

#include "kernels/cuda/device.cuh"

// Attention in two launches. The visible slots of a row, counted in slot order (a slot's *rank*),
// fall into splits of kSplitSlots, and kChunkSplits of these make a chunk. First blocks make the
// weighted sums of splits for some queries of one key-value head: scores first, then their largest,
// then weights and sums. Then the splits of a query are put together.
//
// Where there are few of them, a block makes one split: that takes the least time. Where there are
// many, it makes a chunk and puts its splits together itself: that takes less memory. The bits are
// the same, as both put a chunk together in the same steps (Sum::add).
//
// Keys, then values pass through shared memory in stages; while one is worked on, the next is on
// its way to registers. Each warp has queries of its own, so that only stages need barriers of the
// block: for scores a lane has keys, for sums it has dimensions.
//
// Why a path through a tree has the bits of the same tokens in a row: a score depends on its query
// and key alone; a largest number is exact; sums run in the order of ranks; and splits are by rank.
// How many queries share a block changes nothing in any of that, nor who else is in the call.
//
// Rows of several sequences are one list of blocks: a sequence's follow each other, by queries and
// then by slots, and each block looks up in the table whose it is.
namespace edgedraft::cuda {

inline constexpr std::uint32_t kHeadDimMax = 256;

// The second launch: puts the sums in args.scratch together. kernels/cuda/attention_combine.cu
cudaError_t combine_attention(const AttentionArgs& args, cudaStream_t stream);

namespace attention_detail {

__host__ __device__ constexpr std::uint32_t padded(std::uint32_t head_dim) {
  return (head_dim + 3) / 4 * 4;
}

__device__ inline std::uint32_t bits_of(std::uint64_t mask) {
  return static_cast<std::uint32_t>(__popcll(static_cast<long long>(mask)));
}
// Tail slots below `slot` (at most kTailMax) that a mask shows.
__device__ inline std::uint32_t shown_below(const std::uint64_t* mask, std::uint32_t slot) {
  std::uint32_t count = 0;
#pragma unroll
  for (std::uint32_t word = 0; word < kMaskWords; ++word) {
    const std::uint32_t from = word * 64;
    if (slot >= from + 64) {
      count += bits_of(mask[word]);
    } else if (slot > from) {
      count += bits_of(mask[word] & ((std::uint64_t{1} << (slot - from)) - 1));
    }
  }
  return count;
}

__device__ inline float number(const float4& v, std::uint32_t i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// The weighted sum of a split, a chunk or several of them: the largest score, the sum of weights
// and the sums of this lane's dimensions, all relative to the largest.
template <std::uint32_t kParts>
struct Sum {
  float largest = -INFINITY;
  float weights = 0.0f;
  float4 values[kParts] = {};

  __device__ void add(const Sum& other) {
    const float both = fmaxf(largest, other.largest);
    const float mine = expf(largest - both);
    const float others = expf(other.largest - both);
    largest = both;
    weights = fmaf(other.weights, others, weights * mine);
#pragma unroll
    for (std::uint32_t part = 0; part < kParts; ++part) {
      float4& v = values[part];
      const float4& o = other.values[part];
      v.x = fmaf(o.x, others, v.x * mine);
      v.y = fmaf(o.y, others, v.y * mine);
      v.z = fmaf(o.z, others, v.z * mine);
      v.w = fmaf(o.w, others, v.w * mine);
    }
  }

  __device__ void store(float* to, std::uint32_t head_dim) const {
    const std::uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
    for (std::uint32_t part = 0; part < kParts; ++part) {
      const std::uint32_t d = (part * kWarp + lane) * 4;
      if (d < head_dim) *reinterpret_cast<float4*>(to + d) = values[part];
    }
    if (lane != 0) return;
    to[padded(head_dim)] = largest;
    to[padded(head_dim) + 1] = weights;
  }
  __device__ void load(const float* from, std::uint32_t head_dim) {
    const std::uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
    for (std::uint32_t part = 0; part < kParts; ++part) {
      const std::uint32_t d = (part * kWarp + lane) * 4;
      if (d < head_dim) values[part] = *reinterpret_cast<const float4*>(from + d);
    }
    largest = from[padded(head_dim)];
    weights = from[padded(head_dim) + 1];
  }
};

}  // namespace attention_detail
}  // namespace edgedraft::cuda
