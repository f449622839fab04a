#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// A pair of elements of a row: its index in the head, and its elements' positions.
struct Pair {
  std::uint32_t index;
  std::uint32_t first;
  std::uint32_t second;
};
// Pair i of the head that starts at `head`, of which `dims` elements are paired.
__device__ inline Pair pair_of(std::uint32_t head, std::uint32_t i, std::uint32_t dims,
                               bool neighbours) {
  return {i, head + (neighbours ? 2 * i : i), head + (neighbours ? 2 * i + 1 : dims / 2 + i)};
}

// The pair's elements, rotated by the row's angle.
template <class Args>
__device__ inline float2 rotated(const Args& a, std::uint32_t r, const float* x, const Pair& p) {
  const float* cosines = a.cos_sin.data + a.positions[r] * a.cos_sin.stride;
  const float c = cosines[p.index];
  const float s = cosines[a.rotated / 2 + p.index];
  const float u = x[p.first];
  const float v = x[p.second];
  return make_float2(u * c - v * s, v * c + u * s);
}

template <class Args>
__device__ inline void rotate(const Args& a, std::uint32_t r, const Rows& rows,
                              std::uint32_t pair) {
  float* x = rows.data + r * rows.stride;
  const std::uint32_t half = a.rotated / 2;
  const Pair p = pair_of(pair / half * a.head_dim, pair % half, a.rotated, a.pairs);
  const float2 numbers = rotated(a, r, x, p);
  x[p.first] = numbers.x;
  x[p.second] = numbers.y;
}

// Pairs of a row of queries.
template <class Args>
__host__ __device__ inline std::uint32_t rotated_pairs(const Args& a, std::uint32_t cols) {
  return cols / a.head_dim * (a.rotated / 2);
}

// One thread per pair.
__global__ void rope_kernel(RopeArgs a) {
  take_turn();
  const std::uint32_t pair = blockIdx.x * kThreads + threadIdx.x;
  if (pair < rotated_pairs(a, a.cols)) rotate(a, blockIdx.y, a.x, pair);
}

// One thread per rotated pair of queries, then per pair of keys, then of values. Elements that are
// not rotated are paired as halves, so that neighbouring threads store neighbouring elements.
__global__ void rope_store_kernel(RopeStoreArgs a) {
  take_turn();
  const std::uint32_t r = blockIdx.y;
  std::uint32_t pair = blockIdx.x * kThreads + threadIdx.x;
  const std::uint32_t query_pairs = rotated_pairs(a, a.query_cols);
  if (pair < query_pairs) {
    rotate(a, r, a.q, pair);
    return;
  }
  pair -= query_pairs;
  const bool is_key = pair < a.kv_cols / 2;
  if (!is_key) pair -= a.kv_cols / 2;
  if (pair >= a.kv_cols / 2) return;
  const StorePart& part = is_key ? a.keys : a.values;
  const std::uint32_t dims = is_key ? a.rotated : 0;
  const std::uint32_t head = pair / (a.head_dim / 2) * a.head_dim;
  const std::uint32_t i = pair % (a.head_dim / 2);
  const bool turns = i < dims / 2;
  const Pair p = turns ? pair_of(head, i, dims, a.pairs)
                       : pair_of(head + dims, i - dims / 2, a.head_dim - dims, false);
  const float* x = part.x.data + r * part.x.stride;
  const float2 numbers = turns ? rotated(a, r, x, p) : make_float2(x[p.first], x[p.second]);
  std::byte* place = part.data + cache_bytes(a.type, a.places[r] * part.stride);
  set_cache_number(a.type, place, p.first, numbers.x);
  set_cache_number(a.type, place, p.second, numbers.y);
}

}  // namespace

cudaError_t rope(const RopeArgs& args, cudaStream_t stream) {
  return launch(rope_kernel, dim3(ceil_div(rotated_pairs(args, args.cols), kThreads), args.rows),
                kThreads, stream, args);
}

cudaError_t rope_store(const RopeStoreArgs& args, cudaStream_t stream) {
  const std::uint32_t pairs = rotated_pairs(args, args.query_cols) + args.kv_cols;
  return launch(rope_store_kernel, dim3(ceil_div(pairs, kThreads), args.rows), kThreads, stream,
                args);
}

}  // namespace edgedraft::cuda
