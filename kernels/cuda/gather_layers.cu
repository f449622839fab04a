#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// One block per layer of a slot.
__global__ void gather_layers_kernel(GatherLayersArgs a) {
  take_turn();
  const std::uint32_t layer = blockIdx.x;
  const std::uint32_t slot = a.slots[blockIdx.y];
  const std::uint32_t head_dim = a.heads.head_dim;
  const Cache keys = a.keys[layer];
  const Cache values = a.values[layer];
  const std::byte* key = cache_row(keys, slot);
  const std::byte* value = cache_row(values, slot);
  float* y = a.y.data + (std::size_t{blockIdx.y} * a.layers + layer) * a.y.stride;
  for (std::uint32_t i = threadIdx.x; i < a.heads.kv_heads * head_dim; i += kThreads) {
    const std::uint32_t head = i / head_dim;
    const std::uint32_t d = i % head_dim;
    const std::uint32_t from = a.pairs ? d % (head_dim / 2) * 2 + d / (head_dim / 2) : d;
    y[2 * head * head_dim + d] = cache_number(keys.type, key, head * head_dim + from);
    y[(2 * head + 1) * head_dim + d] = cache_number(values.type, value, i);
  }
}

}  // namespace

cudaError_t gather_layers(const GatherLayersArgs& args, cudaStream_t stream) {
  return launch(gather_layers_kernel, dim3(args.layers, args.slot_count), kThreads, stream, args);
}

}  // namespace edgedraft::cuda
