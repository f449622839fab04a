#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/products.cuh"
#include "kernels/cuda/weight_types.cuh"

namespace edgedraft::cuda {
namespace {

// --- weights of 16 bits in rows of whole 16-byte pieces ---

constexpr std::uint32_t kPiece = 8;          // numbers of 16 bytes
constexpr std::uint32_t kStep = 4 * kPiece;  // inputs that four lanes take together
constexpr std::uint32_t kSteps = 2;          // loaded at once
constexpr std::uint32_t kInputs = kSteps * kStep;

__device__ inline std::uint32_t word(const uint4& v, std::uint32_t i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Inputs 8 t.. of a step for row g of a column tile.
__device__ inline void load_activations(const MatmulArgs& a, std::uint32_t row, std::uint32_t input,
                                        bool aligned, float (&x)[kPiece]) {
  for (float& number : x) number = 0.0f;
  if (row >= a.rows || input >= a.inputs) return;
  const float* from = a.x.data + row * a.x.stride + input;
  if (aligned) {
    const float4 low = reinterpret_cast<const float4*>(from)[0];
    const float4 high = reinterpret_cast<const float4*>(from)[1];
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
  } else {
    for (std::uint32_t i = 0; i < kPiece; ++i) x[i] = from[i];
  }
}

// Eight inputs' weights of rows g and g + 8 of two tiles.
using TileWeights = uint4[2][2];

// Both of the following add the products of eight activations of a column with such weights. Matrix
// instructions take fewer digits than float32 has, so an activation becomes a sum of numbers that
// they take; the smallest is added first.

// bfloat16: three numbers have all digits, and weights are taken as they lie.
__device__ inline void multiply_bfloat16(const float (&x)[kPiece], const TileWeights& weights,
                                         float (&upper)[4], float (&lower)[4]) {
  constexpr std::uint32_t kNumbers = 3;
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    std::uint32_t b[kNumbers][2];
#pragma unroll
    for (std::uint32_t pair = 0; pair < 2; ++pair) {
      float first = x[4 * half + 2 * pair];
      float second = x[4 * half + 2 * pair + 1];
#pragma unroll
      for (std::uint32_t i = 0; i < kNumbers; ++i) {
        b[i][pair] = bfloat16_pair(first, second);
        first -= __uint_as_float(b[i][pair] << 16);
        second -= __uint_as_float(b[i][pair] & 0xFFFF0000u);
      }
    }
#pragma unroll
    for (std::uint32_t m = 0; m < 2; ++m) {
      const std::uint32_t w[4] = {word(weights[m][0], 2 * half), word(weights[m][1], 2 * half),
                                  word(weights[m][0], 2 * half + 1),
                                  word(weights[m][1], 2 * half + 1)};
#pragma unroll
      for (std::uint32_t i = kNumbers; i-- > 0;) mma_bfloat16(m == 0 ? upper : lower, w, b[i]);
    }
  }
}

// float16 has a range that activations leave: two numbers of TF32, which holds weights exactly.
__device__ inline void multiply_float16(const float (&x)[kPiece], const TileWeights& weights,
                                        float (&upper)[4], float (&lower)[4]) {
  const auto tf32 = [](std::uint32_t half) {
    return __float_as_uint(half_to_float(static_cast<std::uint16_t>(half & 0xFFFFu)));
  };
#pragma unroll
  for (std::uint32_t pair = 0; pair < kPiece / 2; ++pair) {
    const float high[2] = {to_tf32(x[2 * pair]), to_tf32(x[2 * pair + 1])};
    const std::uint32_t b_high[2] = {__float_as_uint(high[0]), __float_as_uint(high[1])};
    const std::uint32_t b_low[2] = {__float_as_uint(to_tf32(x[2 * pair] - high[0])),
                                    __float_as_uint(to_tf32(x[2 * pair + 1] - high[1]))};
#pragma unroll
    for (std::uint32_t m = 0; m < 2; ++m) {
      const std::uint32_t at_g = word(weights[m][0], pair);
      const std::uint32_t below = word(weights[m][1], pair);
      const std::uint32_t w[4] = {tf32(at_g), tf32(below), tf32(at_g >> 16), tf32(below >> 16)};
      mma_tf32(m == 0 ? upper : lower, w, b_low);
      mma_tf32(m == 0 ? upper : lower, w, b_high);
    }
  }
}

// Weights of 64 inputs for 32 outputs.
struct WeightPieces {
  TileWeights pieces[kSteps];

  __device__ void load(const std::uint16_t* const (&rows)[2][2], std::uint32_t first,
                       std::uint32_t inputs) {
#pragma unroll
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const std::uint32_t input = first + step * kStep + threadIdx.x % 4 * kPiece;
#pragma unroll
      for (std::uint32_t m = 0; m < 2; ++m) {
#pragma unroll
        for (std::uint32_t below = 0; below < 2; ++below) {
          pieces[step][m][below] = input < inputs
                                       ? *reinterpret_cast<const uint4*>(rows[m][below] + input)
                                       : make_uint4(0, 0, 0, 0);
        }
      }
    }
  }
};

// A block 32 outputs of a tile of rows; its warps take 64 inputs in turn, and the weights of the
// next are on their way meanwhile, those of the first before other kernels have ended. The order in
// which inputs meet within an instruction differs from that in memory, alike for weights and
// activations.
template <DType kType, std::uint32_t kColumnTiles>
__global__ void __launch_bounds__(kProductThreads) matmul_kernel(MatmulArgs a) {
  let_next_start();
  __shared__ float memory[kProductWarps][2 * kColumnTiles * 4 * kWarp];
  const ProductTile at = product_tile(a, blockIdx.x);
  const Product& product = a.products[at.product];
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  const std::uint32_t first_row = blockIdx.y * 8 * kColumnTiles;
  const bool aligned = a.x.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(a.x.data) % 16 == 0;

  // Rows g and g + 8 of either tile; beyond the last output the last one again, not written.
  const std::uint16_t* rows[2][2];
#pragma unroll
  for (std::uint32_t m = 0; m < 2; ++m) {
#pragma unroll
    for (std::uint32_t below = 0; below < 2; ++below) {
      const std::uint32_t output = at.first_output + m * 16 + g + below * 8;
      const std::size_t row = output < product.outputs ? output : product.outputs - 1;
      rows[m][below] = reinterpret_cast<const std::uint16_t*>(product.weight) + row * a.inputs;
    }
  }

  float sums[2][kColumnTiles][4] = {};
  std::uint32_t first = threadIdx.x / kWarp * kInputs;
  constexpr bool kFew = kColumnTiles < 4;  // so that there are registers for more
  WeightPieces weights;
  WeightPieces next;
  if (kFew) next.load(rows, first, a.inputs);
  wait_for_those_before();
  const auto load_x = [&](std::uint32_t step, std::uint32_t n, float(&x)[kPiece]) {
    load_activations(a, first_row + n * 8 + g, first + step * kStep + t * kPiece, aligned, x);
  };
  for (; first < a.inputs; first += kProductWarps * kInputs) {
    float some[kFew ? kSteps : 1][kFew ? kColumnTiles : 1][kPiece];
    if (kFew) {
      // Activations before the weights that come next: they are needed sooner.
#pragma unroll
      for (std::uint32_t step = 0; step < kSteps; ++step) {
#pragma unroll
        for (std::uint32_t n = 0; n < kColumnTiles; ++n) load_x(step, n, some[step][n]);
      }
      weights = next;
      next.load(rows, first + kProductWarps * kInputs, a.inputs);
    } else {
      weights.load(rows, first, a.inputs);
    }
#pragma unroll
    for (std::uint32_t step = 0; step < kSteps; ++step) {
#pragma unroll
      for (std::uint32_t n = 0; n < kColumnTiles; ++n) {
        auto& x = some[kFew ? step : 0][kFew ? n : 0];
        if (!kFew) load_x(step, n, x);
        if (kType == DType::bf16) {
          multiply_bfloat16(x, weights.pieces[step], sums[0][n], sums[1][n]);
        } else {
          multiply_float16(x, weights.pieces[step], sums[0][n], sums[1][n]);
        }
      }
    }
  }
  write_tile<kColumnTiles>(product, at.first_output, first_row, a.rows, sums, memory);
}

template <DType kType>
cudaError_t run(const MatmulArgs& args, cudaStream_t stream) {
  const std::uint32_t tiles = product_tile_count(args);
  if (args.rows <= 8) {
    return launch(matmul_kernel<kType, 1>, dim3(tiles), kProductThreads, stream, args);
  }
  if (args.rows <= 16) {
    return launch(matmul_kernel<kType, 2>, dim3(tiles), kProductThreads, stream, args);
  }
  return launch(matmul_kernel<kType, 4>, dim3(tiles, ceil_div(args.rows, 32)), kProductThreads,
                stream, args);
}

// --- any weight: float32, and rows that are no whole number of pieces ---

constexpr std::uint32_t kPlainRows = 8;

// A warp an output of 8 rows; the grid's second dimension goes over the products.
__global__ void __launch_bounds__(kProductThreads) plain_matmul_kernel(MatmulArgs a) {
  take_turn();
  const Product& product = a.products[blockIdx.z];
  const std::uint32_t output = blockIdx.x * kProductWarps + threadIdx.x / kWarp;
  if (output >= product.outputs) return;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t first_row = blockIdx.y * kPlainRows;
  const std::uint32_t row_count = a.rows - first_row < kPlainRows ? a.rows - first_row : kPlainRows;
  const std::byte* weight = product.weight + output * row_bytes(a.type, a.inputs);
  const float* x = a.x.data + first_row * a.x.stride;

  float sums[kPlainRows] = {};
#pragma unroll 4
  for (std::uint32_t i = lane; i < a.inputs; i += kWarp) {
    const float w = decoded(a.type, weight, i);
#pragma unroll
    for (std::uint32_t r = 0; r < kPlainRows; ++r) {
      if (r < row_count) sums[r] = fmaf(x[r * a.x.stride + i], w, sums[r]);
    }
  }
#pragma unroll
  for (std::uint32_t r = 0; r < kPlainRows; ++r) {
    if (r >= row_count) break;
    const float sum = warp_sum(sums[r]);
    if (lane == 0) write_output(product, first_row + r, output, sum);
  }
}

cudaError_t run_plain(const MatmulArgs& args, cudaStream_t stream) {
  std::uint32_t outputs = 0;
  for (std::uint32_t p = 0; p < args.product_count; ++p) {
    outputs = args.products[p].outputs > outputs ? args.products[p].outputs : outputs;
  }
  return launch(
      plain_matmul_kernel,
      dim3(ceil_div(outputs, kProductWarps), ceil_div(args.rows, kPlainRows), args.product_count),
      kProductThreads, stream, args);
}

}  // namespace

cudaError_t matmul(const MatmulArgs& args, cudaStream_t stream) {
  if (args.inputs % kPiece == 0 && args.type == DType::bf16) {
    return run<DType::bf16>(args, stream);
  }
  if (args.inputs % kPiece == 0 && args.type == DType::f16) {
    return run<DType::f16>(args, stream);
  }
  return run_plain(args, stream);
}

}  // namespace edgedraft::cuda
