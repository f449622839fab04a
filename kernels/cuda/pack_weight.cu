#include <cuda_fp16.h>

#include "kernels/cuda/weight_types.cuh"

// The packed order (PackedLayout). Of tile T and block B, lane 4 g + t of a warp takes
//   numbers   16 bytes at ((T * blocks + B) * 32 + lane) * 16: its fragment a (mma.cuh); nibbles:
//             two blocks of 8 bytes together, a number and the one 8 rows below in the high and low
//             half of a byte, as two's complements
//   scales    the float16 pair of rows g, g + 8 at (T * blocks + B) * 8 + g; with_lines: floats of
//             rows g, g + 8 for the first 16 inputs, then for the others
//   minimums  with_lines: floats of rows g, g + 8
namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 128;

struct PackJob {
  PackWeightArgs args;
  PackedLayout layout;
  std::uint32_t blocks;  // of a tile, those beyond the inputs included
};

// Zero beyond the weight's edges.
__device__ Element element_at(const PackWeightArgs& a, std::uint32_t output, std::uint32_t input) {
  if (output >= a.outputs || input >= a.inputs) return {};
  return element(a.type, a.weight + output * row_bytes(a.type, a.inputs), input);
}

// A warp a block of a tile.
__global__ void pack_weight_kernel(PackJob job) {
  wait_for_those_before();  // and let nobody read it early
  const PackWeightArgs& a = job.args;
  const std::uint32_t block = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (block >= job.blocks) return;
  const std::size_t index = std::size_t{blockIdx.y} * job.blocks + block;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  const std::uint32_t output = blockIdx.y * 16 + g;
  const std::uint32_t input = block * 32 + 4 * t;

  std::uint32_t fragment[4] = {};
  for (std::uint32_t i = 0; i < 4; ++i) {
    for (std::uint32_t byte = 0; byte < 4; ++byte) {
      const Element e = element_at(a, output + i % 2 * 8, input + i / 2 * 16 + byte);
      fragment[i] |= (static_cast<std::uint32_t>(e.level) & 255u) << (8 * byte);
    }
  }
  if (packed_form(a.type) == PackedForm::nibbles) {
    auto* words = reinterpret_cast<std::uint32_t*>(a.packed) +
                  ((index / 2 * kWarp + lane) * 2 + index % 2) * 2;
    for (std::uint32_t half = 0; half < 2; ++half) {
      words[half] =
          (fragment[2 * half] & 0x0F0F0F0Fu) << 4 | (fragment[2 * half + 1] & 0x0F0F0F0Fu);
    }
  } else {
    auto* words = reinterpret_cast<std::uint32_t*>(a.packed) + (index * kWarp + lane) * 4;
    for (std::uint32_t i = 0; i < 4; ++i) words[i] = fragment[i];
  }

  if (t >= 2) return;
  // Lane t of a row's four writes for row g + 8 t.
  const Element low = element_at(a, output + 8 * t, block * 32);
  const Element high = element_at(a, output + 8 * t, block * 32 + 16);
  if (packed_form(a.type) != PackedForm::with_lines) {
    auto* scales = reinterpret_cast<std::uint16_t*>(a.packed + job.layout.scales);
    scales[(index * 8 + g) * 2 + t] = float_to_half(low.scale);
  } else {
    auto* scales = reinterpret_cast<float*>(a.packed + job.layout.scales);
    scales[(index * 8 + g) * 4 + t] = low.scale;
    scales[(index * 8 + g) * 4 + 2 + t] = high.scale;
    auto* minimums = reinterpret_cast<float*>(a.packed + job.layout.minimums);
    minimums[(index * 8 + g) * 2 + t] = low.minimum;
  }
}

}  // namespace

cudaError_t pack_weight(const PackWeightArgs& args, cudaStream_t stream) {
  const PackJob job{args, packed_layout(args.type, args.outputs, args.inputs),
                    stretches(args.inputs) * 4};
  return launch(pack_weight_kernel,
                dim3(ceil_div(job.blocks, kThreads / kWarp), ceil_div(args.outputs, 16)), kThreads,
                stream, job);
}

}  // namespace edgedraft::cuda
