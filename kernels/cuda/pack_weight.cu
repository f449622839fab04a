#include <cuda_fp16.h>

#include "kernels/cuda/weight_types.cuh"

// The packed order (PackedLayout). S counts groups, tile by tile; lane 4 g + t of a warp reads from
// each part
//   numbers   its fragments a (mma.cuh) of four blocks of 32 inputs. Eight bits: 16 bytes at ((S *
//             4 + block) * 32 + lane) * 16. Otherwise two blocks of 8 bytes together, at ((S * 2 +
//             block / 2) * 32 + lane) * 16 + block % 2 * 8, an element and the one 8 rows below in
//             the high and low half of a byte
//   rest      at (S * 32 + lane) * 8 * rest_bits: bits n * rest_bits.. of byte k of these words in
//             turn, n = 4 * block + i: of byte k of fragment a[i]. The lowest bits of a signed
//             element, the highest of an unsigned one
//   scales    of rows g, g + 8 for block t, at ((S * 4 + t) * 8 + g) * 4 * scale_words: a pair of
//             float16, then that of -minimums, if there are any. K types: four bytes, scales and
//             then minimums; without minimums, scales for the first 16 inputs and for the others,
//             plus 128; in halves, likewise, scales low and minimums high in a byte
//   factors   of K types, at (S / 2 * 8 + g) * 4 * factor_words: pairs of float16 as above
namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 128;
constexpr std::uint32_t kBlocks = 4;

struct PackJob {
  PackWeightArgs args;
  PackedLayout layout;
  std::uint32_t groups;  // per tile
};

// Zero past the weight's edges.
__device__ Element element_at(const PackWeightArgs& a, std::uint32_t output, std::uint32_t input) {
  if (output >= a.outputs || input >= a.inputs) return {};
  return element(a.type, a.weight + output * row_bytes(a.type, a.inputs), input);
}

// Packs two 16-bit values, and four 8-bit values.
__device__ std::uint32_t pair_of(std::uint16_t low, std::uint16_t high) {
  return low | std::uint32_t{high} << 16;
}
__device__ std::uint32_t bytes_of(std::int32_t a, std::int32_t b, std::int32_t c, std::int32_t d) {
  return static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b) << 8 |
         static_cast<std::uint32_t>(c) << 16 | static_cast<std::uint32_t>(d) << 24;
}

// One warp per group of a tile.
__global__ void pack_weight_kernel(PackJob job) {
  wait_for_previous_kernel();  // blocks early reads of the packed weight
  const PackWeightArgs& a = job.args;
  const std::uint32_t group = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (group >= job.groups) return;
  const Packing p = packing(a.type);
  const std::uint32_t rest_bits = p.rest_bits();
  const std::size_t index = std::size_t{blockIdx.y} * job.groups + group;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  const std::uint32_t output = blockIdx.y * 16 + g;

  auto* const numbers = reinterpret_cast<std::uint32_t*>(a.packed);
  std::uint32_t rest[4] = {};
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    const std::uint32_t input = group * kGroup + block * 32 + 4 * t;
    std::uint32_t fragment[4] = {};
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t place = (4 * block + i) * rest_bits;
      for (std::uint32_t k = 0; k < 4; ++k) {
        const Element e = element_at(a, output + i % 2 * 8, input + i / 2 * 16 + k);
        const std::uint32_t bits =
            p.is_coded ? e.code : static_cast<std::uint32_t>(e.level) & ((1u << p.bits) - 1);
        if (rest_bits == 0) {
          fragment[i] |= bits << 8 * k;
          continue;
        }
        const std::uint32_t lowest = bits & ((1u << rest_bits) - 1);
        fragment[i] |= (p.is_signed ? bits >> rest_bits : bits & 15u) << 8 * k;
        rest[place / 8] |= (p.is_signed ? lowest : bits >> 4) << (8 * k + place % 8);
      }
    }
    if (p.bits == 8) {
      for (std::uint32_t i = 0; i < 4; ++i) {
        numbers[((index * kBlocks + block) * kWarp + lane) * 4 + i] = fragment[i];
      }
    } else {
      for (std::uint32_t half = 0; half < 2; ++half) {
        numbers[((index * 2 + block / 2) * kWarp + lane) * 4 + block % 2 * 2 + half] =
            fragment[2 * half] << 4 | fragment[2 * half + 1];
      }
    }
  }
  auto* const rest_words = reinterpret_cast<std::uint32_t*>(a.packed + job.layout.rest) +
                           (index * kWarp + lane) * 2 * rest_bits;
  for (std::uint32_t i = 0; i < 2 * rest_bits; ++i) rest_words[i] = rest[i];

  const std::uint32_t input = group * kGroup + t * 32;
  const Element row = element_at(a, output, input);
  const Element below = element_at(a, output + 8, input);
  const std::uint32_t factors = pair_of(row.factor, below.factor);
  const std::uint32_t minimum_factors = pair_of(row.minimum_factor, below.minimum_factor);
  auto* const scales = reinterpret_cast<std::uint32_t*>(a.packed + job.layout.scales) +
                       ((index * kBlocks + t) * 8 + g) * p.scale_words();
  if (!p.is_k) {
    scales[0] = factors;
    if (p.has_minimum) scales[1] = minimum_factors;
    return;
  }
  if (p.has_minimum && !p.has_halves) {
    scales[0] = bytes_of(row.scale, below.scale, row.minimum, below.minimum);
  } else {
    const Element second = element_at(a, output, input + 16);
    const Element below_second = element_at(a, output + 8, input + 16);
    const auto byte = [&p](const Element& e) {
      return p.has_halves ? e.scale | e.minimum << 4 : e.scale + 128;
    };
    scales[0] = bytes_of(byte(row), byte(below), byte(second), byte(below_second));
  }
  if (group % 2 != 0 || t != 0) return;
  auto* const shared_factors = reinterpret_cast<std::uint32_t*>(a.packed + job.layout.factors) +
                               (index / 2 * 8 + g) * p.factor_words();
  shared_factors[0] = factors;
  if (p.has_minimum) shared_factors[1] = minimum_factors;
}

}  // namespace

cudaError_t pack_weight(const PackWeightArgs& args, cudaStream_t stream) {
  const PackJob job{args, packed_layout(args.type, args.outputs, args.inputs), groups(args.inputs)};
  return launch(pack_weight_kernel,
                dim3(ceil_div(job.groups, kThreads / kWarp), ceil_div(args.outputs, 16)), kThreads,
                stream, job);
}

}  // namespace edgedraft::cuda
