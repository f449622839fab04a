#include "kernels/cuda/device.cuh"

// Attention in two launches. The visible slots of a row, counted in slot order (a slot's *rank*),
// fall into splits of kSplitSlots. First a block makes the weighted sum of one split for 16 queries
// of one key-value head: scores first, then their largest, then weights and sums. Then the splits
// of a query are combined.
//
// Why a path through a tree has the bits of the same tokens in a row: a score depends on its query
// and key alone; a largest number is exact; sums run in the order of ranks; and splits are by rank.
namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 128;
constexpr std::uint32_t kWarps = kThreads / kWarp;
constexpr std::uint32_t kQueries = 16;  // of a block
constexpr std::uint32_t kQueriesAWarp = kQueries / kWarps;
constexpr std::uint32_t kHeadDimMax = 256;
constexpr std::uint32_t kStageSlots = 32;  // keys or values in shared memory at a time
constexpr std::uint32_t kStageFloats = kStageSlots * (kHeadDimMax / 2 + 4);
constexpr std::uint32_t kTailMax = 256;

// Its first three members are read four floats at a time.
struct alignas(16) Shared {
  float queries[kQueries][kHeadDimMax];
  float weights[kSplitSlots][kQueries];  // scores, then e^(score - largest); by rank in the split
  float stage[kStageFloats];             // a slot a row of head_dim + 4
  std::int16_t ranks[kStageSlots][kQueries];  // of staged tail slots in the split; -1: not there
  std::uint32_t visible[kQueries];            // slots that a query sees in all
  std::uint64_t masks[kQueries][kMaskWords];
  std::uint32_t seen_max;
};

// What a block works on.
struct Place {
  std::uint32_t kv_head;
  std::uint32_t first_query;  // counted over rows and the heads of a group
  std::uint32_t query_count;
  std::uint32_t begin;  // ranks of the split
  std::uint32_t end;
  std::uint32_t prefix;
};

__device__ inline std::uint32_t prefix_of(const AttentionArgs& a) {
  return a.prefix_now != nullptr ? *a.prefix_now : a.prefix;
}

__device__ std::uint32_t rank_behind_prefix(const std::uint64_t* mask, std::uint32_t j) {
  std::uint32_t rank = 0;
  for (std::uint32_t word = 0; word < j / 64; ++word) {
    rank += static_cast<std::uint32_t>(__popcll(static_cast<long long>(mask[word])));
  }
  const std::uint64_t below = mask[j / 64] & ((std::uint64_t{1} << j % 64) - 1);
  return rank + static_cast<std::uint32_t>(__popcll(static_cast<long long>(below)));
}

__device__ void load_queries(const AttentionArgs& a, const Place& p, Shared& s) {
  const std::uint32_t head_dim = a.heads.head_dim;
  const float scale = 1.0f / sqrtf(static_cast<float>(head_dim));
  for (std::uint32_t at = threadIdx.x; at < kQueries * kHeadDimMax; at += kThreads) {
    const std::uint32_t j = at / kHeadDimMax;
    const std::uint32_t d = at % kHeadDimMax;
    const std::uint32_t query = p.first_query + j;
    const std::uint32_t head = p.kv_head * a.heads.group + query % a.heads.group;
    const bool exists = j < p.query_count && d < head_dim;
    s.queries[j][d] =
        exists ? a.q.data[query / a.heads.group * a.q.stride + head * head_dim + d] * scale : 0.0f;
  }
  if (threadIdx.x < kQueries) {
    const std::uint32_t j = threadIdx.x;
    const std::uint32_t row = (p.first_query + j) / a.heads.group;
    std::uint32_t visible = 0;
    for (std::uint32_t word = 0; word < kMaskWords; ++word) {
      const bool exists = j < p.query_count && a.masks != nullptr;
      const std::uint64_t mask = exists ? a.masks[row * kMaskWords + word] : 0;
      s.masks[j][word] = mask;
      visible += static_cast<std::uint32_t>(__popcll(static_cast<long long>(mask)));
    }
    s.visible[j] = j < p.query_count ? p.prefix + visible : 0;
  }
  for (std::uint32_t at = threadIdx.x; at < kSplitSlots * kQueries; at += kThreads) {
    s.weights[at / kQueries][at % kQueries] = 0.0f;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    s.seen_max = 0;
    for (const std::uint32_t visible : s.visible) {
      s.seen_max = visible > s.seen_max ? visible : s.seen_max;
    }
  }
  __syncthreads();
}

// Keys or values of `count` slots from `first` on, zeros behind head_dim.
__device__ void load_stage(const AttentionArgs& a, const Cache& cache, const Place& p,
                           std::uint32_t first, std::uint32_t count, Shared& s) {
  const std::uint32_t head_dim = a.heads.head_dim;
  const std::uint32_t stride = head_dim + 4;
  const std::size_t offset = std::size_t{p.kv_head} * head_dim;
  const std::uint32_t bytes = cache.type == CacheType::f32 ? 4 : 2;
  const bool vectors = head_dim % 4 == 0 && cache.stride % 4 == 0 &&
                       reinterpret_cast<std::uintptr_t>(cache.data) % (4 * bytes) == 0;
  if (vectors) {
    const std::uint32_t pieces = head_dim / 4;
#pragma unroll 4
    for (std::uint32_t at = threadIdx.x; at < count * pieces; at += kThreads) {
      const std::uint32_t slot = at / pieces;
      const std::uint32_t d = at % pieces * 4;
      const std::byte* from = cache_row(cache, first + slot) + (offset + d) * bytes;
      float4 numbers;
      if (cache.type == CacheType::f32) {
        numbers = *reinterpret_cast<const float4*>(from);
      } else {
        const uint2 pair = *reinterpret_cast<const uint2*>(from);
        const std::uint16_t bits[4] = {
            static_cast<std::uint16_t>(pair.x & 0xFFFFu), static_cast<std::uint16_t>(pair.x >> 16),
            static_cast<std::uint16_t>(pair.y & 0xFFFFu), static_cast<std::uint16_t>(pair.y >> 16)};
        const bool half = cache.type == CacheType::f16;
        numbers.x = half ? half_to_float(bits[0]) : bfloat16_to_float(bits[0]);
        numbers.y = half ? half_to_float(bits[1]) : bfloat16_to_float(bits[1]);
        numbers.z = half ? half_to_float(bits[2]) : bfloat16_to_float(bits[2]);
        numbers.w = half ? half_to_float(bits[3]) : bfloat16_to_float(bits[3]);
      }
      *reinterpret_cast<float4*>(&s.stage[slot * stride + d]) = numbers;
    }
    return;
  }
  // Rows padded with zeros to a multiple of 4.
  const std::uint32_t padded = (head_dim + 3) / 4 * 4;
  for (std::uint32_t at = threadIdx.x; at < count * padded; at += kThreads) {
    const std::uint32_t slot = at / padded;
    const std::uint32_t d = at % padded;
    s.stage[slot * (padded + 4) + d] =
        d < head_dim ? cache_number(cache.type, cache_row(cache, first + slot), offset + d) : 0.0f;
  }
}
__device__ inline std::uint32_t stage_stride(std::uint32_t head_dim) {
  return (head_dim + 3) / 4 * 4 + 4;
}

// Where the staged tail slots first.. of the tree stand among the split's ranks.
__device__ void load_ranks(const Place& p, std::uint32_t first, std::uint32_t count, Shared& s) {
  for (std::uint32_t at = threadIdx.x; at < count * kQueries; at += kThreads) {
    const std::uint32_t j = at % kQueries;
    const std::uint32_t slot = first + at / kQueries;
    std::int16_t place = -1;
    if ((s.masks[j][slot / 64] >> slot % 64 & 1u) != 0) {
      const std::uint32_t rank = p.prefix + rank_behind_prefix(s.masks[j], slot);
      if (rank >= p.begin && rank < p.end) place = static_cast<std::int16_t>(rank - p.begin);
    }
    s.ranks[at / kQueries][j] = place;
  }
}

__device__ inline float dot(const float* key, const float* query, std::uint32_t head_dim) {
  float4 sums = make_float4(0, 0, 0, 0);
  for (std::uint32_t d = 0; d < head_dim; d += 4) {
    const float4 k = *reinterpret_cast<const float4*>(key + d);
    const float4 q = *reinterpret_cast<const float4*>(query + d);
    sums.x = fmaf(k.x, q.x, sums.x);
    sums.y = fmaf(k.y, q.y, sums.y);
    sums.z = fmaf(k.z, q.z, sums.z);
    sums.w = fmaf(k.w, q.w, sums.w);
  }
  return (sums.x + sums.z) + (sums.y + sums.w);
}

// Calls visit(first slot, count, whether these lie behind the prefix) with the slots that may have
// ranks of the split, staged, in slot order.
template <class Visit>
__device__ void for_each_stage(const AttentionArgs& a, const Cache& cache, const Place& p,
                               Shared& s, const Visit& visit) {
  const std::uint32_t capacity = kStageFloats / stage_stride(a.heads.head_dim);
  const std::uint32_t slots = capacity < kStageSlots ? capacity : kStageSlots;
  const std::uint32_t prefix_end = p.end < p.prefix ? p.end : p.prefix;
  for (std::uint32_t first = p.begin; first < prefix_end; first += slots) {
    const std::uint32_t count = prefix_end - first < slots ? prefix_end - first : slots;
    load_stage(a, cache, p, first, count, s);
    __syncthreads();
    visit(first, count, false);
    __syncthreads();
  }
  if (p.end <= p.prefix) return;
  for (std::uint32_t first = 0; first < a.tail_slots; first += slots) {
    const std::uint32_t count = a.tail_slots - first < slots ? a.tail_slots - first : slots;
    load_stage(a, cache, p, p.prefix + first, count, s);
    load_ranks(p, first, count, s);
    __syncthreads();
    visit(first, count, true);
    __syncthreads();
  }
}

// A lane a key, a warp four queries.
__device__ void make_scores(const AttentionArgs& a, const Place& p, Shared& s) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t warp = threadIdx.x / kWarp;
  const std::uint32_t stride = stage_stride(a.heads.head_dim);
  for_each_stage(a, a.keys, p, s, [&](std::uint32_t first, std::uint32_t count, bool tail) {
    if (lane >= count) return;
    for (std::uint32_t i = 0; i < kQueriesAWarp; ++i) {
      const std::uint32_t j = warp * kQueriesAWarp + i;
      if (j >= p.query_count) return;
      const std::int32_t rank =
          tail ? std::int32_t{s.ranks[lane][j]} : static_cast<std::int32_t>(first + lane - p.begin);
      if (rank < 0) continue;
      s.weights[rank][j] = dot(&s.stage[lane * stride], s.queries[j], a.heads.head_dim);
    }
  });
}

// Turns scores into weights; lane 0 writes largest and sum behind the split's weighted values.
__device__ void make_weights(const AttentionArgs& a, const Place& p, std::uint32_t split_count,
                             Shared& s) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  for (std::uint32_t i = 0; i < kQueriesAWarp; ++i) {
    const std::uint32_t j = threadIdx.x / kWarp * kQueriesAWarp + i;
    if (j >= p.query_count || s.visible[j] <= p.begin) continue;
    const std::uint32_t left = s.visible[j] - p.begin;
    const std::uint32_t count = left < kSplitSlots ? left : kSplitSlots;
    float largest = -INFINITY;
    for (std::uint32_t rank = lane; rank < count; rank += kWarp) {
      largest = fmaxf(largest, s.weights[rank][j]);
    }
    largest = warp_max(largest);
    float sum = 0.0f;
    for (std::uint32_t rank = lane; rank < count; rank += kWarp) {
      const float weight = expf(s.weights[rank][j] - largest);
      s.weights[rank][j] = weight;
      sum += weight;
    }
    sum = warp_sum(sum);
    if (lane != 0) continue;
    const std::uint32_t query = p.first_query + j;
    const std::size_t head = std::size_t{query / a.heads.group} * a.heads.kv_heads * a.heads.group +
                             p.kv_head * a.heads.group + query % a.heads.group;
    float* to = a.scratch + (head * split_count + blockIdx.x + 1) * (a.heads.head_dim + 2) - 2;
    to[0] = largest;
    to[1] = sum;
  }
  __syncthreads();
}

// A thread one or two dimensions of all queries.
__device__ void make_sums(const AttentionArgs& a, const Place& p, std::uint32_t split_count,
                          Shared& s) {
  constexpr std::uint32_t kParts = kHeadDimMax / kThreads;
  const std::uint32_t head_dim = a.heads.head_dim;
  const std::uint32_t stride = stage_stride(head_dim);
  float sums[kParts][kQueries] = {};
  for_each_stage(a, a.values, p, s, [&](std::uint32_t first, std::uint32_t count, bool tail) {
#pragma unroll
    for (std::uint32_t part = 0; part < kParts; ++part) {
      const std::uint32_t d = part * kThreads + threadIdx.x;
      if (d >= head_dim) continue;
      for (std::uint32_t slot = 0; slot < count; ++slot) {
        const float value = s.stage[slot * stride + d];
        if (tail) {
#pragma unroll
          for (std::uint32_t j = 0; j < kQueries; ++j) {
            const std::int32_t rank = s.ranks[slot][j];
            if (rank >= 0) sums[part][j] = fmaf(s.weights[rank][j], value, sums[part][j]);
          }
        } else {
          const auto* weights = reinterpret_cast<const float4*>(s.weights[first + slot - p.begin]);
#pragma unroll
          for (std::uint32_t j = 0; j < kQueries; j += 4) {
            const float4 w = weights[j / 4];
            sums[part][j] = fmaf(w.x, value, sums[part][j]);
            sums[part][j + 1] = fmaf(w.y, value, sums[part][j + 1]);
            sums[part][j + 2] = fmaf(w.z, value, sums[part][j + 2]);
            sums[part][j + 3] = fmaf(w.w, value, sums[part][j + 3]);
          }
        }
      }
    }
  });
#pragma unroll
  for (std::uint32_t j = 0; j < kQueries; ++j) {
    if (j >= p.query_count || s.visible[j] <= p.begin) continue;
    const std::uint32_t query = p.first_query + j;
    const std::size_t head = std::size_t{query / a.heads.group} * a.heads.kv_heads * a.heads.group +
                             p.kv_head * a.heads.group + query % a.heads.group;
    float* to = a.scratch + (head * split_count + blockIdx.x) * (head_dim + 2);
#pragma unroll
    for (std::uint32_t part = 0; part < kParts; ++part) {
      const std::uint32_t d = part * kThreads + threadIdx.x;
      if (d < head_dim) to[d] = sums[part][j];
    }
  }
}

__global__ void __launch_bounds__(kThreads) attention_kernel(AttentionArgs a) {
  __shared__ Shared s;
  const std::uint32_t queries = a.rows * a.heads.group;
  Place p;
  p.kv_head = blockIdx.y;
  p.first_query = blockIdx.z * kQueries;
  p.query_count = queries - p.first_query < kQueries ? queries - p.first_query : kQueries;
  p.begin = blockIdx.x * kSplitSlots;
  p.end = p.begin + kSplitSlots;
  p.prefix = prefix_of(a);
  load_queries(a, p, s);
  if (s.seen_max <= p.begin) return;
  const std::uint32_t split_count = attention_splits(a.prefix, a.tail_slots);
  make_scores(a, p, s);
  make_weights(a, p, split_count, s);
  make_sums(a, p, split_count, s);
}

// A block a query head of a row.
__global__ void combine_kernel(AttentionArgs a) {
  const std::uint32_t head = blockIdx.x;
  const std::uint32_t row = blockIdx.y;
  const std::uint32_t head_dim = a.heads.head_dim;
  const std::uint32_t split_count = attention_splits(a.prefix, a.tail_slots);
  std::uint32_t visible = prefix_of(a);
  if (a.masks != nullptr) {
    for (std::uint32_t word = 0; word < kMaskWords; ++word) {
      const auto mask = static_cast<long long>(a.masks[row * kMaskWords + word]);
      visible += static_cast<std::uint32_t>(__popcll(mask));
    }
  }
  const std::uint32_t count = ceil_div(visible, kSplitSlots);
  const float* splits = a.scratch + (std::size_t{row} * a.heads.kv_heads * a.heads.group + head) *
                                        split_count * (head_dim + 2);
  float largest = -INFINITY;
  for (std::uint32_t i = 0; i < count; ++i) {
    largest = fmaxf(largest, splits[i * (head_dim + 2) + head_dim]);
  }
  for (std::uint32_t d = threadIdx.x; d < head_dim; d += kThreads) {
    float sum = 0.0f;
    float weights = 0.0f;
    for (std::uint32_t i = 0; i < count; ++i) {
      const float* split = splits + i * (head_dim + 2);
      const float weight = expf(split[head_dim] - largest);
      weights = fmaf(split[head_dim + 1], weight, weights);
      sum = fmaf(split[d], weight, sum);
    }
    a.y.data[row * a.y.stride + head * head_dim + d] = sum / weights;
  }
}

}  // namespace

cudaError_t attention(const AttentionArgs& args, cudaStream_t stream) {
  if (args.heads.head_dim > kHeadDimMax || args.tail_slots > kTailMax) return cudaErrorInvalidValue;
  const dim3 grid(attention_splits(args.prefix, args.tail_slots), args.heads.kv_heads,
                  ceil_div(args.rows * args.heads.group, kQueries));
  if (const cudaError_t status = launch(attention_kernel, grid, kThreads, stream, args);
      status != cudaSuccess) {
    return status;
  }
  return launch(combine_kernel, dim3(args.heads.kv_heads * args.heads.group, args.rows), kThreads,
                stream, args);
}

}  // namespace edgedraft::cuda
