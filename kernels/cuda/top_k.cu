#include "kernels/cuda/device.cuh"

// The best of stretches of 1024, then the best of those, until one stretch is left.
namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kKeysAThread = kTopKStretch / kThreads;

// Keys of a row: of its numbers, or those that the round before chose.
struct Round {
  TopKArgs args;
  const std::uint64_t* from;  // null: the logits
  std::uint64_t* to;          // [rows, stretches, k]
  std::uint32_t count;        // of keys in a row of `from`
  std::uint32_t stretches;
};

// Descending; every pair is compared by one thread.
__device__ void sort_keys(std::uint64_t* keys) {
  for (std::uint32_t run = 2; run <= kTopKStretch; run *= 2) {
    for (std::uint32_t distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (std::uint32_t pair = threadIdx.x; pair < kTopKStretch / 2; pair += kThreads) {
        const std::uint32_t low = pair / distance * distance * 2 + pair % distance;
        const std::uint32_t high = low + distance;
        const bool descending = (low & run) == 0;
        if ((keys[low] < keys[high]) == descending) {
          const std::uint64_t key = keys[low];
          keys[low] = keys[high];
          keys[high] = key;
        }
      }
    }
  }
  __syncthreads();
}

// A block a stretch of a row.
__global__ void choose_kernel(Round round) {
  take_turn();
  __shared__ std::uint64_t keys[kTopKStretch];
  __shared__ float sums[kThreads / kWarp];
  const TopKArgs& a = round.args;
  const std::size_t row = blockIdx.y;
  const std::uint32_t first = blockIdx.x * kTopKStretch;
  const float* x = a.logits.data + row * a.logits.stride;
  for (std::uint32_t n = 0; n < kKeysAThread; ++n) {
    const std::uint32_t place = n * kThreads + threadIdx.x;
    const std::uint32_t i = first + place;
    std::uint64_t key = 0;
    if (i < round.count) {
      key = round.from == nullptr ? choice_key(x[i], i) : round.from[row * round.count + i];
    }
    keys[place] = key;
  }
  sort_keys(keys);
  for (std::uint32_t i = threadIdx.x; i < a.k; i += kThreads) {
    round.to[(row * round.stretches + blockIdx.x) * a.k + i] = keys[i];
  }
  if (round.from != nullptr) return;

  const float shift = from_ordered_bits(static_cast<std::uint32_t>(keys[0] >> 32));
  float sum = 0.0f;
  for (std::uint32_t n = 0; n < kKeysAThread; ++n) {
    const std::uint32_t i = first + n * kThreads + threadIdx.x;
    if (i < round.count) sum += expf(x[i] - shift);
  }
  sum = block_sum<kThreads>(sum, sums);
  if (threadIdx.x == 0) a.exp_sums[row * round.stretches + blockIdx.x] = {shift, sum};
}

// A warp a row: the chosen keys as tokens and log probabilities.
__global__ void write_kernel(Round round) {
  take_turn();
  const TopKArgs& a = round.args;
  const std::size_t row = blockIdx.x;
  const std::uint64_t* keys = round.from + row * a.k;
  const std::uint32_t stretch_count = top_k_stretches(a.cols);
  const ExpSum* exp_sums = a.exp_sums + row * stretch_count;
  const float largest = from_ordered_bits(static_cast<std::uint32_t>(keys[0] >> 32));
  float sum = 0.0f;
  for (std::uint32_t i = threadIdx.x; i < stretch_count; i += kWarp) {
    sum = fmaf(exp_sums[i].sum, expf(exp_sums[i].shift - largest), sum);
  }
  const float log_sum = logf(warp_sum(sum));
  for (std::uint32_t i = threadIdx.x; i < a.k; i += kWarp) {
    a.tokens[row * a.k + i] = ~static_cast<std::uint32_t>(keys[i]);
    const float x = from_ordered_bits(static_cast<std::uint32_t>(keys[i] >> 32));
    a.log_probs[row * a.k + i] = x - largest - log_sum;
  }
}

}  // namespace

cudaError_t top_k(const TopKArgs& args, cudaStream_t stream) {
  if (args.k == 0 || args.k > kTopKMax || args.k > args.cols) return cudaErrorInvalidValue;
  std::uint64_t* const halves[2] = {
      args.keys, args.keys + std::size_t{args.rows} * top_k_stretches(args.cols) * args.k};
  Round round{args, nullptr, halves[0], args.cols, top_k_stretches(args.cols)};
  for (std::uint32_t next = 1;; next ^= 1u) {
    const cudaError_t status =
        launch(choose_kernel, dim3(round.stretches, args.rows), kThreads, stream, round);
    if (status != cudaSuccess) return status;
    round.from = round.to;
    round.count = round.stretches * args.k;
    if (round.stretches == 1) break;
    round.stretches = ceil_div(round.count, kTopKStretch);
    round.to = halves[next];
  }
  return launch(write_kernel, dim3(args.rows), kWarp, stream, round);
}

}  // namespace edgedraft::cuda
