#include "kernels/cuda/device.cuh"

// Two launches: one block per segment of a row selects its best, then one block per row selects the
// best of its segments. Only selected keys are sorted. Keys are distinct, since equal values differ
// in their indices. So exactly k keys are at or above the k-th largest, and no segment yields more.
namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kWarps = kThreads / kWarp;
constexpr std::uint32_t kNumbersAThread = kTopKSegment / kThreads;
constexpr std::uint32_t kAtOnce = 8;  // keys in flight per thread

// Digits of a key, from the highest on; one thread per digit value.
constexpr std::uint32_t kDigitBits = 8;
static_assert(1u << kDigitBits == kThreads);
static_assert(kTopKMax <= kThreads);

struct ExpSum {
  float largest;  // largest element of a segment; NaN is ignored
  float sum;      // sum of e^(x - largest), or of e^x if that is -infinity
};
static_assert(sizeof(ExpSum) == sizeof(std::uint64_t));

// Scratch: each segment's selected keys, then the sums.
__device__ std::uint64_t* chosen_keys(const TopKArgs& a, std::size_t row) {
  return a.scratch + row * top_k_segments(a.cols) * a.k;
}
__device__ ExpSum* exp_sums(const TopKArgs& a, std::size_t row) {
  const std::size_t segments = top_k_segments(a.cols);
  return reinterpret_cast<ExpSum*>(a.scratch + a.rows * segments * a.k) + row * segments;
}

// Shared memory of a selection.
struct Choice {
  std::uint32_t counts[kThreads];
  std::uint32_t of_warps[kWarps];
  // The digit of the wanted key, the number of keys with it, and the wanted key's rank among them.
  std::uint32_t digit;
  std::uint32_t count;
  std::uint32_t wanted;
  std::uint32_t stored;
};

// Writes the block's `wanted` largest keys, unordered, to `to`; each_key(visit) visits a thread's
// keys.
// Requires  1 <= wanted <= number of keys
template <class EachKey>
__device__ void choose(const EachKey& each_key, std::uint32_t wanted, Choice& choice,
                       std::uint64_t* to) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  std::uint64_t bar = 0;  // digits of the last wanted key, zeros after the known ones
  for (std::uint32_t shift = 64; shift > 0;) {
    shift -= kDigitBits;
    choice.counts[threadIdx.x] = 0;
    if (threadIdx.x == 0) choice.stored = 0;
    __syncthreads();
    each_key([&](std::uint64_t key) {
      if ((key ^ bar) >> shift < kThreads) atomicAdd(&choice.counts[key >> shift & 255u], 1u);
    });
    __syncthreads();
    // Thread i has the i-th largest digit value.
    const std::uint32_t digit = kThreads - 1 - threadIdx.x;
    const std::uint32_t count = choice.counts[digit];
    std::uint32_t so_far = count;
    for (std::uint32_t distance = 1; distance < kWarp; distance *= 2) {
      const std::uint32_t before = __shfl_up_sync(kAllLanes, so_far, distance);
      so_far += lane >= distance ? before : 0;
    }
    if (lane == kWarp - 1) choice.of_warps[threadIdx.x / kWarp] = so_far;
    __syncthreads();
    for (std::uint32_t warp = 0; warp < threadIdx.x / kWarp; ++warp) {
      so_far += choice.of_warps[warp];
    }
    if (so_far >= wanted && so_far - count < wanted) {
      choice.digit = digit;
      choice.count = count;
      choice.wanted = wanted - (so_far - count);
    }
    __syncthreads();
    bar |= std::uint64_t{choice.digit} << shift;
    wanted = choice.wanted;
    if (choice.count == wanted) break;  // all keys with this prefix
  }
  each_key([&](std::uint64_t key) {
    if (key >= bar) to[atomicAdd(&choice.stored, 1u)] = key;
  });
}

// One block per segment of a row.
__global__ void __launch_bounds__(kThreads, 4) choose_kernel(TopKArgs a) {
  take_turn();
  __shared__ Choice choice;
  __shared__ float of_warps[kWarps];
  __shared__ float sums[kWarps];
  const std::size_t row = blockIdx.y;
  const float* numbers = a.logits.data + row * a.logits.stride;
  const std::uint32_t first = blockIdx.x * kTopKSegment + threadIdx.x;

  float x[kNumbersAThread];
  float largest = -INFINITY;
#pragma unroll
  for (std::uint32_t n = 0; n < kNumbersAThread; ++n) {
    const std::uint32_t i = first + n * kThreads;
    x[n] = i < a.cols ? numbers[i] : -INFINITY;
    largest = fmaxf(largest, x[n]);
  }
  largest = warp_max(largest);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = largest;
  __syncthreads();
  for (const float of_warp : of_warps) largest = fmaxf(largest, of_warp);
  // A segment without finite values adds nothing, or its NaN.
  const float shift = largest == -INFINITY ? 0.0f : largest;
  float sum = 0.0f;
#pragma unroll
  for (std::uint32_t n = 0; n < kNumbersAThread; ++n) sum += expf(x[n] - shift);
  sum = block_sum<kThreads>(sum, sums);
  if (threadIdx.x == 0) exp_sums(a, row)[blockIdx.x] = {largest, sum};

  // The high halves of keys; 0 past the row.
  std::uint32_t ordered[kNumbersAThread];
#pragma unroll
  for (std::uint32_t n = 0; n < kNumbersAThread; ++n) {
    const std::uint32_t i = first + n * kThreads;
    ordered[n] = i < a.cols ? static_cast<std::uint32_t>(choice_key(x[n], i) >> 32) : 0;
  }
  const std::uint32_t behind = a.cols - blockIdx.x * kTopKSegment;
  const std::uint32_t count = behind < a.k ? behind : a.k;
  std::uint64_t* to = chosen_keys(a, row) + std::size_t{blockIdx.x} * a.k;
  choose(
      [&](const auto& visit) {
#pragma unroll
        for (std::uint32_t n = 0; n < kNumbersAThread; ++n) {
          if (ordered[n] == 0) continue;
          visit(std::uint64_t{ordered[n]} << 32 |
                static_cast<std::uint32_t>(~(first + n * kThreads)));
        }
      },
      count, choice, to);
  if (threadIdx.x >= count && threadIdx.x < a.k) to[threadIdx.x] = 0;
}

// One block per row: the best of its segments' best, as tokens and log probabilities.
__global__ void write_kernel(TopKArgs a) {
  take_turn();
  __shared__ Choice choice;
  __shared__ std::uint64_t keys[kTopKMax];
  const std::size_t row = blockIdx.x;
  const std::uint32_t segments = top_k_segments(a.cols);
  const std::uint64_t* from = chosen_keys(a, row);
  const std::uint32_t count = segments * a.k;
  choose(
      [&](const auto& visit) {
        for (std::uint32_t i = threadIdx.x; i < count; i += kAtOnce * kThreads) {
          std::uint64_t some[kAtOnce];
#pragma unroll
          for (std::uint32_t n = 0; n < kAtOnce; ++n) {
            some[n] = i + n * kThreads < count ? from[i + n * kThreads] : 0;
          }
#pragma unroll
          for (std::uint32_t n = 0; n < kAtOnce; ++n) {
            if (some[n] != 0) visit(some[n]);
          }
        }
      },
      a.k, choice, keys);
  __syncthreads();

  // Every warp computes the sum, in the same order.
  const ExpSum* parts = exp_sums(a, row);
  float largest = -INFINITY;
  for (std::uint32_t i = threadIdx.x % kWarp; i < segments; i += kWarp) {
    largest = fmaxf(largest, parts[i].largest);
  }
  largest = warp_max(largest);
  float sum = 0.0f;
  for (std::uint32_t i = threadIdx.x % kWarp; i < segments; i += kWarp) {
    sum = fmaf(parts[i].sum, expf(parts[i].largest - largest), sum);
  }
  const float log_sum = logf(warp_sum(sum));
  if (threadIdx.x >= a.k) return;
  const std::uint64_t key = keys[threadIdx.x];
  std::uint32_t place = 0;
  for (std::uint32_t i = 0; i < a.k; ++i) place += keys[i] > key ? 1u : 0u;
  const float x = from_ordered_bits(static_cast<std::uint32_t>(key >> 32));
  a.tokens[row * a.k + place] = ~static_cast<std::uint32_t>(key);
  a.log_probs[row * a.k + place] = x - largest - log_sum;
}

}  // namespace

cudaError_t top_k(const TopKArgs& args, cudaStream_t stream) {
  if (args.k == 0 || args.k > kTopKMax || args.k > args.cols ||
      args.scratch_words < top_k_scratch_words(args.rows, args.cols, args.k)) {
    return cudaErrorInvalidValue;
  }
  const cudaError_t status =
      launch(choose_kernel, dim3(top_k_segments(args.cols), args.rows), kThreads, stream, args);
  if (status != cudaSuccess) return status;
  return launch(write_kernel, dim3(args.rows), kThreads, stream, args);
}

}  // namespace edgedraft::cuda
