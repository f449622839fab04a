#include "kernels/cuda/weight_types.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// One block per row.
__global__ void embed_kernel(EmbedArgs a) {
  take_turn();
  const std::uint32_t r = blockIdx.x;
  const std::byte* row = a.table + std::size_t{a.tokens[r]} * row_bytes(a.type, a.cols);
  float* y = a.y.data + r * a.y.stride;
  for (std::uint32_t i = threadIdx.x; i < a.cols; i += kThreads) y[i] = decoded(a.type, row, i);
}

}  // namespace

cudaError_t embed(const EmbedArgs& args, cudaStream_t stream) {
  return launch(embed_kernel, dim3(args.rows), kThreads, stream, args);
}

}  // namespace edgedraft::cuda
