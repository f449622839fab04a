#include "kernels/cuda/float_products.cuh"
#include "kernels/cuda/wide_products.cuh"

namespace edgedraft::cuda {
namespace {

using namespace float_detail;

// Parts of 64 inputs: the stored weights of each output, then each row's float32 activations. Every
// warp splits the activations itself. Every second row swaps pieces, so that lanes that read two
// rows at once use all banks. Inputs past the last are zero, as in the narrow kernel.
template <DType kType, class Tile>
class FloatSource {
  static constexpr std::uint32_t kWeightPieces = kInputs / kPiece;  // per output
  static constexpr std::uint32_t kRowPieces = kInputs / 4;          // per row
  static constexpr std::uint32_t kRowsAt = Tile::kOutputs * kWeightPieces;
  static_assert(Tile::kOutputs * kWeightPieces % Tile::kGroupThreads == 0 &&
                Tile::kRows * kRowPieces % Tile::kGroupThreads == 0);

 public:
  static constexpr std::uint32_t kPartBytes = (kRowsAt + Tile::kRows * kRowPieces) * 16;

  __device__ FloatSource(const MatmulArgs& a, const Product& product, std::uint32_t first_output,
                         std::uint32_t first_row)
      : a_(a), product_(product), first_output_(first_output), first_row_(first_row) {}
  __device__ std::uint32_t parts() const { return ceil_div(a_.inputs, kInputs); }

  __device__ void copy_weights(std::byte* to, std::uint32_t part) const {
    auto* const pieces = reinterpret_cast<uint4*>(to);
    const std::uint32_t thread = thread_now() % Tile::kGroupThreads;
#pragma unroll
    for (std::uint32_t i = 0; i < kRowsAt; i += Tile::kGroupThreads) {
      const std::uint32_t output = (i + thread) / kWeightPieces;
      const std::uint32_t piece = (i + thread) % kWeightPieces;
      const std::uint32_t input = part * kInputs + piece * kPiece;
      const bool exists = input < a_.inputs;
      const auto* row = reinterpret_cast<const std::uint16_t*>(product_.weight) +
                        std::size_t{existing(first_output_ + output, product_.outputs)} * a_.inputs;
      start_copy(pieces + weight_at(output, piece),
                 reinterpret_cast<const uint4*>(row + (exists ? input : 0)), exists);
    }
  }

  __device__ void copy_activations(std::byte* to, std::uint32_t part) const {
    auto* const pieces = reinterpret_cast<uint4*>(to);
    const std::uint32_t thread = thread_now() % Tile::kGroupThreads;
#pragma unroll
    for (std::uint32_t i = 0; i < Tile::kRows * kRowPieces; i += Tile::kGroupThreads) {
      const std::uint32_t row = (i + thread) / kRowPieces;
      const std::uint32_t piece = (i + thread) % kRowPieces;
      const std::uint32_t input = part * kInputs + piece * 4;
      const bool exists = input < a_.inputs;
      const float* x = a_.x.data + std::size_t{existing(first_row_ + row, a_.rows)} * a_.x.stride;
      start_copy(pieces + row_at(row, piece),
                 reinterpret_cast<const uint4*>(x + (exists ? input : 0)), exists);
    }
  }

  __device__ void multiply(const std::byte* from, WarpSums& sums) const {
    const auto* const pieces = reinterpret_cast<const uint4*>(from);
    const std::uint32_t thread = thread_now();
    const std::uint32_t lane = thread % kWarp;
    const std::uint32_t g = lane / 4;
    const std::uint32_t t = lane % 4;
#pragma unroll
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      TileWeights weights;
#pragma unroll
      for (std::uint32_t m = 0; m < 2; ++m) {
#pragma unroll
        for (std::uint32_t below = 0; below < 2; ++below) {
          weights[m][below] =
              pieces[weight_at(Tile::warp_output(thread) + m * 16 + below * 8 + g, step * 4 + t)];
        }
      }
#pragma unroll
      for (std::uint32_t n = 0; n < 4; ++n) {
        const std::uint32_t row = Tile::warp_row(thread) + n * 8 + g;
        float x[kPiece];
#pragma unroll
        for (std::uint32_t half = 0; half < 2; ++half) {
          const uint4 numbers = pieces[row_at(row, step * 8 + t * 2 + half)];
#pragma unroll
          for (std::uint32_t i = 0; i < 4; ++i) {
            x[half * 4 + i] = __uint_as_float(word_of(numbers, i));
          }
        }
        float_detail::multiply<kType>(x, weights, sums[0][n], sums[1][n]);
      }
    }
  }

 private:
  // Clamps to the last row or output; results past it are not written.
  __device__ static std::uint32_t existing(std::uint32_t index, std::uint32_t count) {
    return index < count ? index : count - 1;
  }
  __device__ static std::uint32_t weight_at(std::uint32_t output, std::uint32_t piece) {
    return output * kWeightPieces + (piece ^ (output & 1u) * 4);
  }
  __device__ static std::uint32_t row_at(std::uint32_t row, std::uint32_t piece) {
    return kRowsAt + row * kRowPieces + (piece ^ (row & 1u));
  }

  const MatmulArgs& a_;
  const Product& product_;
  std::uint32_t first_output_;
  std::uint32_t first_row_;
};

template <DType kType, class Tile>
__global__ void __launch_bounds__(kProductThreads, 2) wide_matmul_kernel(WideJob<MatmulArgs> job) {
  make_wide_tile<FloatSource<kType, Tile>, Tile>(job);
}

template <DType kType, class Tile>
cudaError_t run(const MatmulArgs& args, cudaStream_t stream) {
  return launch_wide<FloatSource<kType, Tile>, Tile>(wide_matmul_kernel<kType, Tile>, narrow_matmul,
                                                     args, stream);
}

template <DType kType>
cudaError_t run_type(const MatmulArgs& args, ProductKernel kernel, cudaStream_t stream) {
  return kernel == ProductKernel::few_outputs ? run<kType, FewOutputsTile>(args, stream)
                                              : run<kType, ManyOutputsTile>(args, stream);
}

}  // namespace

cudaError_t wide_matmul(const MatmulArgs& args, ProductKernel kernel, cudaStream_t stream) {
  if (!is_aligned(args.x)) return narrow_matmul(args, stream);
  return args.type == DType::bf16 ? run_type<DType::bf16>(args, kernel, stream)
                                  : run_type<DType::f16>(args, kernel, stream);
}

}  // namespace edgedraft::cuda
