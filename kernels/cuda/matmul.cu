#include "kernels/cuda/float_products.cuh"
#include "kernels/cuda/weight_types.cuh"

namespace edgedraft::cuda {
namespace {

using namespace float_detail;

// --- 16-bit weights in rows of whole 16-byte pieces ---

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

// One block per 32 outputs of a tile of rows; its warps take 64 inputs in turn. The next weights
// are in flight meanwhile, the first of them before earlier kernels end.
template <DType kType, std::uint32_t kColumnTiles>
__global__ void __launch_bounds__(kProductThreads) matmul_kernel(MatmulArgs a) {
  let_next_start();
  __shared__ float memory[kProductWarps][2 * kColumnTiles * 4 * kWarp];
  const ProductTile at = product_tile<kTileOutputs>(a, blockIdx.x);
  const Product& product = a.products[at.product];
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  const std::uint32_t first_row = blockIdx.y * 8 * kColumnTiles;
  const bool aligned = is_aligned(a.x);

  // Rows g and g + 8 of either tile; past the last output the last row repeats, unwritten.
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
  constexpr bool kFew = kColumnTiles < 4;  // leaves registers for more
  WeightPieces weights;
  WeightPieces next;
  if (kFew) next.load(rows, first, a.inputs);
  wait_for_previous_kernel();
  const auto load_x = [&](std::uint32_t step, std::uint32_t n, float(&x)[kPiece]) {
    load_activations(a, first_row + n * 8 + g, first + step * kStep + t * kPiece, aligned, x);
  };
  for (; first < a.inputs; first += kProductWarps * kInputs) {
    float some[kFew ? kSteps : 1][kFew ? kColumnTiles : 1][kPiece];
    if (kFew) {
      // Activations before later weights: they are needed sooner.
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
        multiply<kType>(x, weights.pieces[step], sums[0][n], sums[1][n]);
      }
    }
  }
  write_tile<kColumnTiles>(product, at.first_output, first_row, a.rows, sums, memory);
}

template <DType kType>
cudaError_t run(const MatmulArgs& args, cudaStream_t stream) {
  const std::uint32_t tiles = product_tile_count(args, kTileOutputs);
  if (args.rows <= 8) {
    return launch(matmul_kernel<kType, 1>, dim3(tiles), kProductThreads, stream, args);
  }
  if (args.rows <= 16) {
    return launch(matmul_kernel<kType, 2>, dim3(tiles), kProductThreads, stream, args);
  }
  return launch(matmul_kernel<kType, 4>, dim3(tiles, ceil_div(args.rows, 32)), kProductThreads,
                stream, args);
}

// --- any weight: float32, and rows that are not whole pieces ---

constexpr std::uint32_t kPlainRows = 8;

// One warp per output of 8 rows; the grid's second dimension is the matmul.
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

cudaError_t narrow_matmul(const MatmulArgs& args, cudaStream_t stream) {
  return args.type == DType::bf16 ? run<DType::bf16>(args, stream) : run<DType::f16>(args, stream);
}

cudaError_t matmul(const MatmulArgs& args, cudaStream_t stream) {
  const bool has_16_bits = args.type == DType::bf16 || args.type == DType::f16;
  if (!has_16_bits || args.inputs % kPiece != 0) return run_plain(args, stream);
  const ProductKernel kernel = product_kernel(args);
  return kernel == ProductKernel::narrow ? narrow_matmul(args, stream)
                                         : wide_matmul(args, kernel, stream);
}

}  // namespace edgedraft::cuda
