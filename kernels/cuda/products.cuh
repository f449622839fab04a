#pragma once

#include "kernels/cuda/device.cuh"

// Shared by all matmuls. For few rows, a block computes 32 outputs of a tile of rows. Its eight
// warps split the inputs, and their sums are added in warp order. For many rows see
// wide_products.cuh.
namespace edgedraft::cuda {

inline constexpr std::uint32_t kProductWarps = 8;
inline constexpr std::uint32_t kProductThreads = kProductWarps * kWarp;
inline constexpr std::uint32_t kTileOutputs = 32;

struct ProductTile {
  std::uint32_t product;
  std::uint32_t first_output;
};

// Blocks of all matmuls, in sequence.
template <class Args>
std::uint32_t product_tile_count(const Args& a, std::uint32_t outputs) {
  std::uint32_t count = 0;
  for (std::uint32_t p = 0; p < a.product_count; ++p) {
    count += ceil_div(a.products[p].outputs, outputs);
  }
  return count;
}
template <std::uint32_t kOutputs, class Args>
__device__ ProductTile product_tile(const Args& a, std::uint32_t block) {
  std::uint32_t product = 0;
  for (; product + 1 < a.product_count; ++product) {
    const std::uint32_t tiles = ceil_div(a.products[product].outputs, kOutputs);
    if (block < tiles) break;
    block -= tiles;
  }
  return {product, block * kOutputs};
}

// Kernel selection; results are bit-identical for all.
//
// Above this many rows, passing weights through shared memory may be faster.
inline constexpr std::uint32_t kNarrowRowsMax = 16;
// Relative time of one wave of a kernel's blocks at a fixed input count. A block takes the same
// time, however few blocks run beside it. Fitted to the kernel bench on an H100
// (docs/records/measurements).
struct ProductCost {
  ProductKernel kernel;
  std::uint32_t outputs, rows;  // per block
  std::uint32_t blocks;         // per wave
  std::uint32_t cost;
};
struct ProductCosts {
  ProductCost of[3];
};
constexpr ProductCosts product_costs(DType type) {
  constexpr auto narrow = ProductKernel::narrow;
  constexpr auto few = ProductKernel::few_outputs;
  constexpr auto many = ProductKernel::many_outputs;
  switch (type) {
    case DType::f16:
    case DType::bf16:
      return {{{narrow, 32, 32, 132, 27}, {few, 64, 32, 132, 42}, {many, 128, 64, 264, 232}}};
    case DType::q8_0:
    case DType::q5_0:
    case DType::iq4_nl:
    case DType::mxfp4:
      return {{{narrow, 32, 32, 132, 7}, {few, 64, 32, 132, 16}, {many, 128, 64, 264, 65}}};
    case DType::q4_0:
      return {{{narrow, 32, 32, 132, 7}, {few, 64, 32, 264, 22}, {many, 128, 64, 264, 66}}};
    default:  // one sum per 16 inputs
      return {{{narrow, 32, 32, 132, 12}, {few, 64, 32, 132, 22}, {many, 128, 64, 132, 65}}};
  }
}
template <class Args>
ProductKernel product_kernel(const Args& a) {
  if (a.kernel != ProductKernel::by_shape) return a.kernel;
  if (a.rows <= kNarrowRowsMax) return ProductKernel::narrow;
  ProductKernel best = ProductKernel::narrow;
  std::uint64_t least = ~std::uint64_t{0};
  for (const ProductCost& kernel : product_costs(a.type).of) {
    const std::uint32_t tiles = product_tile_count(a, kernel.outputs);
    const std::uint64_t rounds = ceil_div(tiles * ceil_div(a.rows, kernel.rows), kernel.blocks);
    if (rounds * kernel.cost >= least) continue;
    best = kernel.kernel;
    least = rounds * kernel.cost;
  }
  return best;
}

__device__ inline void write_output(const Product& product, std::uint32_t row, std::uint32_t output,
                                    float sum) {
  float& y = product.y.data[row * product.y.stride + output];
  if (product.bias != nullptr) sum += product.bias[output];
  y = product.accumulate ? y + sum : sum;
}

// Adds the warps' sums and calls write(output, row, sum) for each element of the tile. `sums`:
// fragments c (mma.cuh) of two tiles of 16 outputs by column tiles of 8 rows. `memory` is shared.
template <std::uint32_t kColumnTiles, class Write>
__device__ void add_warps(const float (&sums)[2][kColumnTiles][4],
                          float (&memory)[kProductWarps][2 * kColumnTiles * 4 * kWarp],
                          const Write& write) {
  const std::uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
  for (std::uint32_t m = 0; m < 2; ++m) {
#pragma unroll
    for (std::uint32_t n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        memory[threadIdx.x / kWarp][((m * kColumnTiles + n) * 4 + i) * kWarp + lane] =
            sums[m][n][i];
      }
    }
  }
  __syncthreads();
  for (std::uint32_t at = threadIdx.x; at < 2 * kColumnTiles * 4 * kWarp; at += kProductThreads) {
    const std::uint32_t from_lane = at % kWarp;
    const std::uint32_t i = at / kWarp % 4;
    const std::uint32_t n = at / (4 * kWarp) % kColumnTiles;
    const std::uint32_t m = at / (4 * kWarp * kColumnTiles);
    float sum = 0.0f;
#pragma unroll
    for (std::uint32_t warp = 0; warp < kProductWarps; ++warp) sum += memory[warp][at];
    write(m * 16 + from_lane / 4 + i / 2 * 8, n * 8 + from_lane % 4 * 2 + i % 2, sum);
  }
}

template <std::uint32_t kColumnTiles>
__device__ void write_tile(const Product& product, std::uint32_t first_output,
                           std::uint32_t first_row, std::uint32_t rows,
                           const float (&sums)[2][kColumnTiles][4],
                           float (&memory)[kProductWarps][2 * kColumnTiles * 4 * kWarp]) {
  add_warps<kColumnTiles>(sums, memory, [&](std::uint32_t output, std::uint32_t row, float sum) {
    output += first_output;
    row += first_row;
    if (output < product.outputs && row < rows) write_output(product, row, output, sum);
  });
}

}  // namespace edgedraft::cuda
