#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// A pair of elements of a row: its head, its index in the head, and its elements' positions.
struct Pair {
  std::uint32_t index;
  std::uint32_t first;
  std::uint32_t second;
};
__device__ inline Pair pair_of(std::uint32_t pair, std::uint32_t head_dim, bool neighbours) {
  const std::uint32_t half = head_dim / 2;
  const std::uint32_t i = pair % half;
  const std::uint32_t head = pair / half * head_dim;
  return {i, head + (neighbours ? 2 * i : i), head + (neighbours ? 2 * i + 1 : half + i)};
}

// The pair's elements, rotated by the row's angle.
template <class Args>
__device__ inline float2 rotated(const Args& a, std::uint32_t r, const float* x, const Pair& p) {
  const float* cosines = a.cos_sin.data + a.positions[r] * a.cos_sin.stride;
  const float c = cosines[p.index];
  const float s = cosines[a.head_dim / 2 + p.index];
  const float u = x[p.first];
  const float v = x[p.second];
  return make_float2(u * c - v * s, v * c + u * s);
}

template <class Args>
__device__ inline void rotate(const Args& a, std::uint32_t r, const Rows& rows,
                              std::uint32_t pair) {
  float* x = rows.data + r * rows.stride;
  const Pair p = pair_of(pair, a.head_dim, a.pairs);
  const float2 numbers = rotated(a, r, x, p);
  x[p.first] = numbers.x;
  x[p.second] = numbers.y;
}

// One thread per pair.
__global__ void rope_kernel(RopeArgs a) {
  take_turn();
  const std::uint32_t pair = blockIdx.x * kThreads + threadIdx.x;
  if (pair < a.cols / 2) rotate(a, blockIdx.y, a.x, pair);
}

// One thread per pair of queries, then keys, then values. Values are paired as halves, so that
// neighbouring threads store neighbouring elements.
__global__ void rope_store_kernel(RopeStoreArgs a) {
  take_turn();
  const std::uint32_t r = blockIdx.y;
  std::uint32_t pair = blockIdx.x * kThreads + threadIdx.x;
  if (pair < a.query_cols / 2) {
    rotate(a, r, a.q, pair);
    return;
  }
  pair -= a.query_cols / 2;
  const bool is_key = pair < a.kv_cols / 2;
  if (!is_key) pair -= a.kv_cols / 2;
  if (pair >= a.kv_cols / 2) return;
  const StorePart& part = is_key ? a.keys : a.values;
  const Pair p = pair_of(pair, a.head_dim, is_key && a.pairs);
  const float* x = part.x.data + r * part.x.stride;
  const float2 numbers = is_key ? rotated(a, r, x, p) : make_float2(x[p.first], x[p.second]);
  std::byte* place = part.data + a.places[r] * part.stride * (a.type == DType::f32 ? 4 : 2);
  set_cache_number(a.type, place, p.first, numbers.x);
  set_cache_number(a.type, place, p.second, numbers.y);
}

}  // namespace

cudaError_t rope(const RopeArgs& args, cudaStream_t stream) {
  return launch(rope_kernel, dim3(ceil_div(args.cols / 2, kThreads), args.rows), kThreads, stream,
                args);
}

cudaError_t rope_store(const RopeStoreArgs& args, cudaStream_t stream) {
  const std::uint32_t pairs = args.query_cols / 2 + args.kv_cols;
  return launch(rope_store_kernel, dim3(ceil_div(pairs, kThreads), args.rows), kThreads, stream,
                args);
}

}  // namespace edgedraft::cuda
