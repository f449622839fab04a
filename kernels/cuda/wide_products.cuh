#pragma once

#include "kernels/cuda/copies.cuh"
#include "kernels/cuda/products.cuh"

// Matmuls of many rows: a block computes a tile of outputs by rows, large enough to reuse each
// loaded weight and activation often. They pass through shared memory in stages; while one is
// multiplied, the next are in flight.
//
// Sums have the bits of the narrow kernels for any tile. Part p of the inputs belongs to slice p %
// 8. Each slice is summed in ascending order, and the slices' sums are added from first to last.
// There each warp has a slice. Here a group of warps takes several slices in turn and keeps the
// earlier sums in shared memory. For small tiles, four groups share the slices, two consecutive
// ones each.
namespace edgedraft::cuda {

inline constexpr std::uint32_t kSlices = kProductWarps;

// threadIdx.x, read again at each use, so that values derived from it do not occupy registers
// between the steps of a block.
__device__ inline std::uint32_t thread_now() {
#if defined(__CUDA_ARCH__)
  std::uint32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
#else
  return threadIdx.x;
#endif
}

// A warp has 32 outputs of 32 rows: fragments c (mma.cuh) of two tiles of 16 outputs by four column
// tiles of 8 rows.
using WarpSums = float[2][4][4];
inline constexpr std::uint32_t kWarpNumbers = 32;  // elements per lane

template <std::uint32_t kTheOutputs, std::uint32_t kTheRows>
struct WideTile {
  static constexpr std::uint32_t kOutputs = kTheOutputs;
  static constexpr std::uint32_t kRows = kTheRows;
  static constexpr std::uint32_t kOutputWarps = kOutputs / 32;
  static constexpr std::uint32_t kGroupThreads = kOutputWarps * (kRows / 32) * kWarp;
  static constexpr std::uint32_t kGroups = kProductThreads / kGroupThreads;
  static constexpr std::uint32_t kGroupSlices = kSlices / kGroups;
  // A group keeps one earlier sum of slices and the current one.
  static_assert(kGroups == 1 || kGroupSlices == 2);

  __device__ static std::uint32_t group(std::uint32_t thread) {
    return kGroups == 1 ? 0 : thread / kGroupThreads;
  }
  // Offsets of a warp's outputs and rows in the tile.
  __device__ static std::uint32_t warp_output(std::uint32_t thread) {
    return thread / kWarp % kOutputWarps * 32;
  }
  __device__ static std::uint32_t warp_row(std::uint32_t thread) {
    return thread % kGroupThreads / kWarp / kOutputWarps * 32;
  }
};
using FewOutputsTile = WideTile<64, 32>;
using ManyOutputsTile = WideTile<128, 64>;

template <class Args>
struct WideJob {
  Args args;
  std::uint32_t stages;
};

// Walks over the parts of the inputs in a block's order. Groups advance together; `lead` is the
// first group's part.
template <class Tile>
struct PartWalk {
  std::uint32_t count;  // number of parts
  std::uint32_t slice = 0;
  std::uint32_t lead = 0;

  __device__ bool ended() const { return slice == Tile::kGroupSlices; }
  __device__ std::uint32_t part(std::uint32_t group) const {
    return lead + group * Tile::kGroupSlices;
  }
  __device__ bool has_part(std::uint32_t group) const { return !ended() && part(group) < count; }
  __device__ void advance() {
    if (ended()) return;
    lead += kSlices;
    if (lead < count) return;
    lead = ++slice;
    if (lead >= count) slice = Tile::kGroupSlices;
  }
};

// `Source`: the operands (Int8Source in int8_matmul_wide.cu).
// Requires  kProductThreads threads, and wide_block_bytes(...) of block memory
template <class Source, class Tile, class Args>
__device__ void make_wide_tile(const WideJob<Args>& job) {
  let_next_start();
  const Args& a = job.args;
  constexpr std::uint32_t kPartBytes = Source::kPartBytes;
  const std::uint32_t row_tiles = ceil_div(a.rows, Tile::kRows);
  // Tiles of the same weights are adjacent.
  const ProductTile at = product_tile<Tile::kOutputs>(a, blockIdx.x / row_tiles);
  const Product& product = a.products[at.product];
  const std::uint32_t first_row = blockIdx.x % row_tiles * Tile::kRows;

  // All threads' earlier slice sums, followed by the stages.
  float* const kept = &block_memory<float>();
  std::byte* const memory = reinterpret_cast<std::byte*>(
      &block_memory<float>() + std::size_t{kWarpNumbers} * kProductThreads);
  const Source source(a, product, at.first_output, first_row);
  const auto copy_weights = [&](std::uint32_t stage, const PartWalk<Tile>& at_part) {
    const std::uint32_t group = Tile::group(thread_now());
    if (!at_part.has_part(group)) return;
    source.copy_weights(memory + (stage * Tile::kGroups + group) * kPartBytes, at_part.part(group));
  };
  const auto copy_activations = [&](std::uint32_t stage, const PartWalk<Tile>& at_part) {
    const std::uint32_t group = Tile::group(thread_now());
    if (!at_part.has_part(group)) return;
    source.copy_activations(memory + (stage * Tile::kGroups + group) * kPartBytes,
                            at_part.part(group));
  };

  PartWalk<Tile> now{source.parts()};
  PartWalk<Tile> ahead = now;
  for (std::uint32_t i = 0; i + 1 < job.stages; ++i, ahead.advance()) {
    copy_weights(i, ahead);
  }
  wait_for_previous_kernel();
  ahead = now;
  for (std::uint32_t i = 0; i + 1 < job.stages; ++i, ahead.advance()) {
    copy_activations(i, ahead);
    close_copies();
  }

  WarpSums sums = {};
  std::uint32_t used = 0;
  std::uint32_t unused = job.stages - 1;
  while (!now.ended()) {
    // One group of copies per step; this step's is the oldest. After the barrier all threads'
    // copies are visible, and the previous step's stage is free to be refilled.
    wait_for_copies(job.stages - 2);
    __syncthreads();
    copy_weights(unused, ahead);
    copy_activations(unused, ahead);
    close_copies();
    ahead.advance();
    const std::uint32_t group = Tile::group(thread_now());
    if (now.has_part(group)) {
      source.multiply(memory + (used * Tile::kGroups + group) * kPartBytes, sums);
    }
    unused = used;
    used = used + 1 == job.stages ? 0 : used + 1;

    const std::uint32_t slice = now.slice;
    now.advance();
    if (now.slice == slice || slice + 1 == Tile::kGroupSlices) continue;
    const std::uint32_t mine = thread_now();
#pragma unroll
    for (std::uint32_t i = 0; i < kWarpNumbers; ++i) {
      float& sum = sums[i / 16][i / 4 % 4][i % 4];
      float& before = kept[i * kProductThreads + mine];
      before = (slice == 0 ? 0.0f : before) + sum;
      sum = 0.0f;
    }
  }

  // Each group adds its sums to those of the previous groups and passes them on.
  static_assert(Tile::kGroups == 1 ||
                kWarpNumbers * Tile::kGroupThreads * sizeof(float) <= kPartBytes * Tile::kGroups);
  float* const handed = reinterpret_cast<float*>(memory) + threadIdx.x % Tile::kGroupThreads;
#pragma unroll 1
  for (std::uint32_t g = 0; g < Tile::kGroups; ++g) {
    if (Tile::kGroups > 1) __syncthreads();
    if (g != Tile::group(threadIdx.x)) continue;
#pragma unroll
    for (std::uint32_t i = 0; i < kWarpNumbers; ++i) {
      float& sum = sums[i / 16][i / 4 % 4][i % 4];
      float& of_others = handed[i * Tile::kGroupThreads];
      const float before = kept[i * kProductThreads + threadIdx.x];
      sum = (g == 0 ? before : of_others + before) + sum;
      if (g + 1 < Tile::kGroups) of_others = sum;
    }
  }
  if (Tile::group(threadIdx.x) + 1 != Tile::kGroups) return;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t first_of_lane[2] = {
      at.first_output + Tile::warp_output(threadIdx.x) + lane / 4,
      first_row + Tile::warp_row(threadIdx.x) + lane % 4 * 2};
#pragma unroll
  for (std::uint32_t i = 0; i < kWarpNumbers; ++i) {
    const std::uint32_t output = first_of_lane[0] + i / 16 * 16 + i / 2 % 2 * 8;
    const std::uint32_t row = first_of_lane[1] + i / 4 % 4 * 8 + i % 2;
    if (output < product.outputs && row < a.rows) {
      write_output(product, row, output, sums[i / 16][i / 4 % 4][i % 4]);
    }
  }
}

inline constexpr std::uint32_t kWideStagesMax = kOpenGroupsMax + 2;
// Lets a multiprocessor of 9.0 hold two blocks, if two stages fit.
inline constexpr std::size_t kWideBlockBytes = 113u << 10;
constexpr std::size_t wide_block_bytes(std::size_t stage_bytes, std::uint32_t stages) {
  return std::size_t{kWarpNumbers} * kProductThreads * sizeof(float) + stage_bytes * stages;
}
// Stages that fit into a block of the kernel: 0 or at least 2.
inline cudaError_t wide_stages(const void* kernel, std::size_t stage_bytes, std::uint32_t& stages) {
  std::size_t limit = 0;
  const cudaError_t status = block_memory_max(kernel, limit);
  stages = 0;
  for (std::uint32_t some = 2; some <= kWideStagesMax; ++some) {
    const std::size_t bytes_count = wide_block_bytes(stage_bytes, some);
    if (bytes_count <= limit && (some == 2 || bytes_count <= kWideBlockBytes)) stages = some;
  }
  return status;
}

// Launches `kernel`, which computes tiles with make_wide_tile, or `narrow` if the device has too
// little memory per block.
template <class Source, class Tile, class Args>
cudaError_t launch_wide(void (*kernel)(WideJob<Args>),
                        cudaError_t (*narrow)(const Args&, cudaStream_t), const Args& args,
                        cudaStream_t stream) {
  constexpr std::size_t kStageBytes = std::size_t{Source::kPartBytes} * Tile::kGroups;
  std::uint32_t stages = 0;
  const cudaError_t status =
      wide_stages(reinterpret_cast<const void*>(kernel), kStageBytes, stages);
  if (status != cudaSuccess) return status;
  if (stages == 0) return narrow(args, stream);
  const std::uint32_t blocks =
      product_tile_count(args, Tile::kOutputs) * ceil_div(args.rows, Tile::kRows);
  return launch(kernel, dim3(blocks), kProductThreads, stream, WideJob<Args>{args, stages},
                wide_block_bytes(kStageBytes, stages));
}

}  // namespace edgedraft::cuda
