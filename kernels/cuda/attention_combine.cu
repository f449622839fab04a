#include "kernels/cuda/attention.cuh"

namespace edgedraft::cuda {

using namespace attention_detail;

namespace {

constexpr std::uint32_t kCombineThreads = 256;
constexpr std::uint32_t kCombineWarps = kCombineThreads / kWarp;

// Adds `count` <= kMax sums, `stride` floats apart, to `to`, or initializes it if `is_empty`. All
// are loaded at once, since memory latency dominates.
template <std::uint32_t kMax, std::uint32_t kParts>
__device__ void add_sums(const float* from, std::size_t stride, std::uint32_t count,
                         std::uint32_t head_dim, bool is_empty, Sum<kParts>& to) {
  Sum<kParts> sums[kMax];
#pragma unroll
  for (std::uint32_t i = 0; i < kMax; ++i) {
    if (i < count) sums[i].load(from + i * stride, head_dim);
  }
#pragma unroll
  for (std::uint32_t i = 0; i < kMax; ++i) {
    if (i >= count) break;
    if (i == 0 && is_empty) {
      to = sums[i];
    } else {
      to.add(sums[i]);
    }
  }
}

// Computes a section from its splits' sums from `begin` on, again loaded at once.
template <std::uint32_t kParts>
__device__ Sum<kParts> section_of_splits(const float* from, std::size_t stride, std::uint32_t begin,
                                         std::uint32_t count, std::uint32_t head_dim) {
  Sum<kParts> sums[kSectionSplits];
#pragma unroll
  for (std::uint32_t i = 0; i < kSectionSplits; ++i) {
    if (i >= begin && i < count) sums[i].load(from + i * stride, head_dim);
  }
  Sum<kParts> section;
#pragma unroll
  for (std::uint32_t first = 0; first < kSectionSplits; first += kChunkSplits) {
    if (first >= count) break;
    if (first + kChunkSplits <= begin) continue;
    Sum<kParts> chunk = sums[first];
#pragma unroll
    for (std::uint32_t i = 1; i < kChunkSplits; ++i) {
      if (first + i >= count) break;
      if (first + i <= begin) {
        chunk = sums[first + i];
      } else {
        chunk.add(sums[first + i]);
      }
    }
    if (first <= begin) {
      section = chunk;
    } else {
      section.add(chunk);
    }
  }
  return section;
}

// One block per query head of a row: its warps take sections in turn, its lanes dimensions.
template <std::uint32_t kDims, std::uint32_t kPieceSplits>
__global__ void __launch_bounds__(kCombineThreads, kDims <= 128 ? 2 : 1)
    combine_kernel(AttentionArgs a) {
  take_turn();
  constexpr std::uint32_t kParts = kDims / (4 * kWarp);
  __shared__ float4 values[kCombineWarps][kDims / 4];
  __shared__ float largest[kCombineWarps];
  __shared__ float weights[kCombineWarps];
  const std::uint32_t head = blockIdx.x;
  const std::uint32_t row = blockIdx.y;
  const std::uint32_t head_dim = a.heads.head_dim;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t warp = threadIdx.x / kWarp;
  const AttentionRow of_row =
      reinterpret_cast<const AttentionRow*>(a.table + a.plan.table_sequences * kSequenceWords)[row];
  const std::uint32_t section_count = ceil_div(of_row.visible, kSectionSplits * kSplitSlots);
  // This warp's first section in the row's window.
  const std::uint32_t before = of_row.begin / (kSectionSplits * kSplitSlots);
  const std::uint32_t first_section =
      warp + (before > warp ? ceil_div(before - warp, kCombineWarps) * kCombineWarps : 0);
  const std::size_t floats = attention_sum_floats(head_dim);
  const float* sums =
      a.scratch + (std::ptrdiff_t{of_row.first_sum} + std::ptrdiff_t{head} * of_row.head_sums) *
                      static_cast<std::ptrdiff_t>(floats);

  Sum<kParts> mine;
  if constexpr (kPieceSplits == kSectionSplits) {
    constexpr std::uint32_t kMax = 8;
    for (std::uint32_t first = first_section; first < section_count;
         first += kCombineWarps * kMax) {
      const std::uint32_t left = ceil_div(section_count - first, kCombineWarps);
      add_sums<kMax>(sums + first * floats, kCombineWarps * floats, left < kMax ? left : kMax,
                     head_dim, first == first_section, mine);
    }
  } else {
    constexpr std::uint32_t kPieces = kSectionSplits / kPieceSplits;
    const std::uint32_t piece_count = ceil_div(of_row.visible, kPieceSplits * kSplitSlots);
    const std::uint32_t first_piece = of_row.begin / (kPieceSplits * kSplitSlots);
    for (std::uint32_t i = first_section; i < section_count; i += kCombineWarps) {
      const float* from = sums + i * kPieces * floats;
      const std::uint32_t left = piece_count - i * kPieces;
      const std::uint32_t count = left < kPieces ? left : kPieces;
      const std::uint32_t begin = first_piece > i * kPieces ? first_piece - i * kPieces : 0;
      Sum<kParts> section;
      if constexpr (kPieceSplits == 1) {
        section = section_of_splits<kParts>(from, floats, begin, count, head_dim);
      } else {
        add_sums<kPieces>(from + begin * floats, floats, count - begin, head_dim, true, section);
      }
      if (i == first_section) {
        mine = section;
      } else {
        mine.add(section);
      }
    }
  }
#pragma unroll
  for (std::uint32_t part = 0; part < kParts; ++part) {
    values[warp][part * kWarp + lane] = mine.values[part];
  }
  if (lane == 0) {
    largest[warp] = mine.largest;
    weights[warp] = mine.weights;
  }
  __syncthreads();
  const std::uint32_t warps = section_count < kCombineWarps ? section_count : kCombineWarps;
  float of_all = largest[0];
  for (std::uint32_t w = 1; w < warps; ++w) of_all = fmaxf(of_all, largest[w]);
  // A sink is a score whose value is zero.
  const float sink = a.sinks != nullptr ? a.sinks[head] : -INFINITY;
  of_all = fmaxf(of_all, sink);
  const float of_sink = a.sinks != nullptr ? expf(sink - of_all) : 0.0f;
  for (std::uint32_t d = threadIdx.x; d < head_dim; d += kCombineThreads) {
    float sum = 0.0f;
    float weight = of_sink;
    for (std::uint32_t w = 0; w < warps; ++w) {
      const float factor = expf(largest[w] - of_all);
      sum = fmaf(number(values[w][d / 4], d % 4), factor, sum);
      weight = fmaf(weights[w], factor, weight);
    }
    a.y.data[row * a.y.stride + head * head_dim + d] = sum / weight;
  }
}

template <std::uint32_t kDims>
cudaError_t run(const AttentionArgs& args, cudaStream_t stream) {
  const dim3 grid(args.heads.kv_heads * args.heads.group, args.plan.rows);
  switch (args.plan.block_splits) {
    case 1:
      return launch(combine_kernel<kDims, 1>, grid, kCombineThreads, stream, args);
    case kChunkSplits:
      return launch(combine_kernel<kDims, kChunkSplits>, grid, kCombineThreads, stream, args);
    default:
      return launch(combine_kernel<kDims, kSectionSplits>, grid, kCombineThreads, stream, args);
  }
}

}  // namespace

cudaError_t combine_attention(const AttentionArgs& args, cudaStream_t stream) {
  if (args.heads.head_dim <= 128) return run<128>(args, stream);
  return args.heads.head_dim <= 256 ? run<256>(args, stream) : run<512>(args, stream);
}

}  // namespace edgedraft::cuda
