#include "kernels/cuda/row_groups.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 128;

// One warp per group of a row.
__global__ void quantize_kernel(QuantizeArgs a) {
  take_turn();
  const std::uint32_t group = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (group >= groups(a.cols)) return;
  const std::size_t r = blockIdx.y;
  const float* row = a.x.data + r * a.x.stride;
  quantize_group(a.y, a.rows, r, group,
                 piece_of(row, piece_place(group), a.cols, in_pieces(row, a.cols)));
}

}  // namespace

cudaError_t quantize(const QuantizeArgs& args, cudaStream_t stream) {
  return launch(quantize_kernel, dim3(ceil_div(groups(args.cols), kThreads / kWarp), args.rows),
                kThreads, stream, args);
}

}  // namespace edgedraft::cuda
