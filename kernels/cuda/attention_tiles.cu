#include "kernels/cuda/attention_split.cuh"

// Attention's first launch with matrix instructions. A warp alone computes the sums of a piece for
// a tile of 16 queries. Keys and values go from memory to the registers of the lanes that multiply
// them, 16 bytes at a time. Warps of a block that read the same ones hit the first-level cache.
// Shared memory holds the queries, which every split reuses.
//
// Splits inside the prefix are alike for all rows. Other splits take one warp per row, or several
// rounds (TileWork); rows that see the same slots share a round. A round has slots in rank order,
// and only slots that its rows see. So each weight and its value have the same position in the same
// instruction as in plain decoding. Data in other slots, even NaN, has no effect.
//
// Processors before 8.0 lack these instructions: their kernels are empty and never launched
// (attention_limits).
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define EDGEDRAFT_ATTENTION_TILES 1
#else
#pragma nv_diag_suppress 177  // unused by the empty kernels
#endif

namespace edgedraft::cuda {

using namespace attention_tiles;

namespace {

constexpr std::uint32_t kThreads = kTileWarps * kWarp;

// Position of set bit n, counted from 0; at least n + 1 bits are set.
__device__ inline std::uint32_t set_bit(std::uint64_t bits, std::uint32_t n) {
  std::uint32_t place = 0;
#pragma unroll
  for (std::uint32_t width = 32; width > 0; width /= 2) {
    const std::uint32_t below = bits_of(bits & ((std::uint64_t{1} << width) - 1));
    if (n < below) continue;
    n -= below;
    bits >>= width;
    place += width;
  }
  return place;
}
// Slot of a rank after the prefix, among those a mask shows.
__device__ inline std::uint32_t tail_slot(const std::uint64_t* mask, std::uint32_t rank) {
#pragma unroll
  for (std::uint32_t word = 0; word < kMaskWords; ++word) {
    const std::uint32_t shown = bits_of(mask[word]);
    if (rank < shown) return word * 64 + set_bit(mask[word], rank);
    rank -= shown;
  }
  return 0;
}

// A warp's work.
struct Work {
  std::uint32_t prefix;
  const std::uint64_t* masks;  // null: no slots after the prefix
  const AttentionRow* rows;
  const std::uint32_t* pages;

  // Number of a split's ranks that a row has.
  __device__ std::uint32_t count(std::uint32_t row, std::uint32_t begin) const {
    const std::uint32_t visible = rows[row].visible;
    const std::uint32_t left = visible > begin ? visible - begin : 0;
    return left < kSplitSlots ? left : kSplitSlots;
  }
  // Number of a split's ranks before a row's window.
  __device__ std::uint32_t hidden(std::uint32_t row, std::uint32_t begin) const {
    const std::uint32_t first = rows[row].begin;
    const std::uint32_t before = first > begin ? first - begin : 0;
    return before < kSplitSlots ? before : kSplitSlots;
  }
  // Slot of a rank that the row has.
  __device__ std::uint32_t slot(std::uint32_t row, std::uint32_t rank) const {
    if (rank < prefix) return rank;
    return prefix + tail_slot(masks + row * kMaskWords, rank - prefix);
  }
  __device__ std::uint32_t cache_row(std::uint32_t slot, std::uint32_t page_slots) const {
    return pages == nullptr ? slot : pages[slot / page_slots] * page_slots + slot % page_slots;
  }
};

// The block's queries as terms in lane order: per 16 dimensions and term, the four words of a lane.
template <class F>
__device__ void load_queries(const AttentionArgs& a, const AttentionSequence& sequence,
                             std::uint32_t first_query, std::uint32_t queries, std::uint32_t tiles,
                             uint4* to) {
  const std::uint32_t head_dim = a.heads.head_dim;
  for (std::uint32_t at = threadIdx.x; at < tiles * F::kSteps * kWarp; at += kThreads) {
    const std::uint32_t lane = at % kWarp;
    const std::uint32_t step = at / kWarp % F::kSteps;
    const std::uint32_t tile = at / kWarp / F::kSteps;
    const std::uint32_t d = step / 2 * 32 + lane % 4 * 8 + step % 2 * 4;
    float x[2][4] = {};
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t query = first_query + tile * kTileQueries + lane / 4 + 8 * half;
      if (query >= queries) continue;
      const std::uint32_t head = blockIdx.y * a.heads.group + query % a.heads.group;
      const float* from =
          a.q.data + (sequence.first_row + query / a.heads.group) * a.q.stride + head * head_dim;
      if (F::kWhole) {
        if (d >= head_dim) continue;
        const float4 four = *reinterpret_cast<const float4*>(from + d);
        x[half][0] = four.x, x[half][1] = four.y, x[half][2] = four.z, x[half][3] = four.w;
      } else {
        for (std::uint32_t i = 0; i < 4 && d + i < head_dim; ++i) x[half][i] = from[d + i];
      }
#pragma unroll
      for (float& number : x[half]) number *= a.scale;
    }
    std::uint32_t words[4][kTileTerms];
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      split_numbers(x[i % 2][i / 2 * 2], x[i % 2][i / 2 * 2 + 1], words[i]);
    }
#pragma unroll
    for (std::uint32_t term = 0; term < kTileTerms; ++term) {
      to[((tile * F::kSteps + step) * kTileTerms + term) * kWarp + lane] =
          make_uint4(words[0][term], words[1][term], words[2][term], words[3][term]);
    }
  }
}

template <class F>
__device__ void store_sums(const AttentionArgs& a, const AttentionSequence& sequence,
                           std::uint32_t first_query, std::uint32_t piece, std::uint32_t pieces,
                           std::uint32_t first_value, const bool (&has)[2],
                           const TileSums<F>& sums) {
  const std::uint32_t head_dim = a.heads.head_dim;
  const std::uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    if (!has[half]) continue;
    float* to =
        sum_place(a, sequence, blockIdx.y, first_query + lane / 4 + 8 * half, piece, pieces);
#pragma unroll
    for (std::uint32_t group = 0; group < F::kGroups; ++group) {
#pragma unroll
      for (std::uint32_t i = 0; i < 2 * F::kPiece; i += 4) {  // elements of the lane's two columns
        const std::uint32_t d = first_value + (group * 8 + lane % 4 * 2) * F::kPiece + i;
        if (d >= head_dim) continue;
        const std::uint32_t column = 2 * half + i / F::kPiece;
        const std::uint32_t j = i % F::kPiece;
        const auto& v = sums.values[group];
        *reinterpret_cast<float4*>(to + d) =
            make_float4(v[j][column], v[j + 1][column], v[j + 2][column], v[j + 3][column]);
      }
    }
    if (lane % 4 != 0 || first_value != 0) continue;
    to[padded(head_dim)] = sums.largest[half];
    to[padded(head_dim) + 1] = sums.weights[half];
  }
}

// Appends a chunk's sums to those of the section, which a lane keeps in shared memory.
template <class F>
struct Section {
  float4* values;  // this lane's, kWarp apart
  float largest[2];
  float weights[2];

  // `chunk` becomes the section's sums including it, for queries with earlier chunks.
  __device__ void join_with(const bool (&has)[2], TileSums<F>& chunk) {
    Factors factors[2] = {};
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      if (!has[half]) continue;
      factors[half] = join(largest[half], weights[half], chunk.largest[half], chunk.weights[half]);
      chunk.largest[half] = largest[half];
      chunk.weights[half] = weights[half];
    }
#pragma unroll
    for (std::uint32_t at = 0; at < F::kGroups * F::kPiece; ++at) {
      float(&v)[4] = chunk.values[at / F::kPiece][at % F::kPiece];
      const float4 four = values[at * kWarp];
      if (has[0]) {
        v[0] = fmaf(v[0], factors[0].others, four.x * factors[0].mine);
        v[1] = fmaf(v[1], factors[0].others, four.y * factors[0].mine);
      }
      if (has[1]) {
        v[2] = fmaf(v[2], factors[1].others, four.z * factors[1].mine);
        v[3] = fmaf(v[3], factors[1].others, four.w * factors[1].mine);
      }
    }
  }
  __device__ void keep(const TileSums<F>& sums) {
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      largest[half] = sums.largest[half];
      weights[half] = sums.weights[half];
    }
#pragma unroll
    for (std::uint32_t at = 0; at < F::kGroups * F::kPiece; ++at) {
      const float(&v)[4] = sums.values[at / F::kPiece][at % F::kPiece];
      values[at * kWarp] = make_float4(v[0], v[1], v[2], v[3]);
    }
  }
};

// Blocks per multiprocessor, limited by registers.
template <DType kType, std::uint32_t kDims>
constexpr int kBlocksAtATime = kDims == 64 && kType == DType::bf16 ? 3 : 2;

// The block's only barrier follows its queries; after it, warps run independently.
template <DType kType, std::uint32_t kDims, bool kWhole>
__global__ void __launch_bounds__(kThreads, kBlocksAtATime<kType, kDims>)
    tile_kernel(AttentionArgs a) {
#if defined(EDGEDRAFT_ATTENTION_TILES)
  take_turn();
  using F = Form<kType, kDims, kWhole>;
  auto& s = block_memory<TileMemory>();
  const AttentionSequence sequence = find_sequence<kThreads>(a, s);
  if (sequence.rows == 0) return;
  const std::uint32_t head_dim = a.heads.head_dim;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t warp = threadIdx.x / kWarp;
  const std::uint32_t slots = sequence.prefix + sequence.tail_slots;
  const std::uint32_t queries = sequence.rows * a.heads.group;
  const std::uint32_t piece_slots = a.plan.block_splits * kSplitSlots;
  const TileWork shares(sequence.rows, sequence.prefix, sequence.tail_slots, sequence.begin,
                        a.heads, a.plan);
  const std::uint32_t block = blockIdx.x - sequence.first_block;
  if (block >= shares.blocks()) return;
  const bool has_row = block >= shares.shared_blocks;  // one row per warp
  const std::uint32_t tiles = has_row ? 1 : a.plan.block_queries / kTileQueries;
  const std::uint32_t query_blocks =
      has_row ? shares.tile_blocks
              : ceil_div(shares.shared_pieces - shares.first_piece, shares.block_pieces);
  const std::uint32_t nth = has_row ? block - shares.shared_blocks : block;
  const std::uint32_t block_query = nth / query_blocks * tiles * kTileQueries;
  load_queries<F>(a, sequence, block_query, queries, tiles, s.queries());
  __syncthreads();

  const std::uint32_t tile = warp % tiles;
  const std::uint32_t first_query = block_query + tile * kTileQueries;
  if (first_query >= queries) return;
  const std::uint32_t left = queries - first_query;
  std::uint32_t first_row = first_query / a.heads.group;
  std::uint32_t last_row =
      (first_query + (left < kTileQueries ? left : kTileQueries) - 1) / a.heads.group;
  std::uint32_t piece =
      shares.first_piece + nth % query_blocks * shares.block_pieces + warp / tiles;
  if (has_row) {
    const std::uint32_t unit = nth % query_blocks * kTileWarps + warp;
    piece = shares.shared_pieces + unit / shares.tile_rows;
    first_row += unit % shares.tile_rows;
    if (first_row > last_row || piece >= shares.pieces) return;
    last_row = first_row;
  } else if (piece >= shares.shared_pieces) {
    return;
  }
  const uint4* const tile_queries = s.queries() + tile * F::kSteps * kTileTerms * kWarp;
  const std::uint32_t first_value = blockIdx.z * F::kValueDims;
  const HeadRows keys = head_rows<F>(a.keys, blockIdx.y, head_dim);
  const HeadRows values = head_rows<F>(a.values, blockIdx.y, head_dim);
  const Work work = {
      sequence.prefix, reinterpret_cast<const std::uint64_t*>(a.table + sequence.masks_at),
      reinterpret_cast<const AttentionRow*>(a.table + a.plan.table_sequences * kSequenceWords) +
          sequence.first_row,
      a.keys.page_slots != 0 ? a.table + sequence.pages_at : nullptr};
  TwoQueries mine;
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    const std::uint32_t query = first_query + lane / 4 + 8 * half;
    mine.rows[half] = query / a.heads.group;
    const bool is_mine = mine.rows[half] >= first_row && mine.rows[half] <= last_row;
    mine.visible[half] = is_mine && query < queries ? work.rows[mine.rows[half]].visible : 0;
    mine.begins[half] = is_mine && query < queries ? work.rows[mine.rows[half]].begin : 0;
  }
  std::uint32_t last_begin = 0;  // from here on, windows hide nothing
  if (sequence.last_begin > 0) {
    for (std::uint32_t row = first_row; row <= last_row; ++row) {
      const std::uint32_t row_begin = work.rows[row].begin;
      last_begin = row_begin > last_begin ? row_begin : last_begin;
    }
  }

  TileSums<F> sums = {};
  Section<F> section = {};
  section.values = reinterpret_cast<float4*>(s.queries() + tiles * F::kSteps * kTileTerms * kWarp) +
                   warp * F::kGroups * F::kPiece * kWarp + lane;
  for (std::uint32_t split = 0; split < a.plan.block_splits; ++split) {
    const std::uint32_t begin = piece * piece_slots + split * kSplitSlots;
    if (begin >= slots) break;
    for (std::uint32_t row = first_row; row <= last_row;) {
      Round round;
      std::uint32_t end_row = last_row + 1;
      if (begin + kSplitSlots <= sequence.prefix && begin >= last_begin) {
        round.begin = 0;
        round.count = kSplitSlots;
        round.row = work.cache_row(begin + lane, a.keys.page_slots);
      } else {
        round.begin = work.hidden(row, begin);
        round.count = work.count(row, begin);
        if (round.count > round.begin) {
          const bool is_seen = lane >= round.begin && lane < round.count;
          const std::uint32_t rank = begin + (is_seen ? lane : round.begin);
          const std::uint32_t slot = work.slot(row, rank);
          for (end_row = row + 1; end_row <= last_row; ++end_row) {
            if (work.count(end_row, begin) != round.count) break;
            if (work.hidden(end_row, begin) != round.begin) break;
            if (warp_or(work.slot(end_row, rank) != slot ? 1 : 0) != 0) break;
          }
          round.row = work.cache_row(slot, a.keys.page_slots);
        } else {
          end_row = row + 1;
        }
      }
#pragma unroll
      for (std::uint32_t half = 0; half < 2; ++half) {
        round.takes[half] = mine.rows[half] >= row && mine.rows[half] < end_row;
        round.starts[half] = split % kChunkSplits == 0 || mine.begins[half] >= begin;
      }
      if (round.count > round.begin) {
        add_split<F>(keys, values, round, head_dim, first_value, tile_queries, sums);
      }
      row = end_row;
    }
    const bool ends = split + 1 == a.plan.block_splits || begin + kSplitSlots >= slots;
    if (split >= kChunkSplits && (ends || (split + 1) % kChunkSplits == 0)) {
      const std::uint32_t chunk_begin =
          piece * piece_slots + split / kChunkSplits * kChunkSplits * kSplitSlots;
      const bool has[2] = {mine.visible[0] > chunk_begin &&
                           mine.begins[0]<chunk_begin, mine.visible[1]> chunk_begin &&
                           mine.begins[1] < chunk_begin};
      section.join_with(has, sums);
    }
    if (!ends && (split + 1) % kChunkSplits == 0) section.keep(sums);
  }
  const std::uint32_t piece_begin = piece * piece_slots;
  const std::uint32_t piece_end = piece_begin + piece_slots;
  const bool has[2] = {mine.visible[0] > piece_begin &&
                       mine.begins[0]<piece_end, mine.visible[1]> piece_begin &&
                       mine.begins[1] < piece_end};
  store_sums<F>(a, sequence, first_query, piece - shares.first_piece,
                shares.pieces - shares.first_piece, first_value, has, sums);
#endif
}

template <DType kType, std::uint32_t kDims, bool kWhole>
cudaError_t run(const AttentionArgs& args, cudaStream_t stream) {
  using F = Form<kType, kDims, kWhole>;
  return launch(
      tile_kernel<kType, kDims, kWhole>,
      dim3(args.plan.blocks, args.heads.kv_heads, ceil_div(args.heads.head_dim, F::kValueDims)),
      kThreads, stream, args,
      tile_block_bytes(kDims, args.plan.block_queries, args.plan.block_splits > kChunkSplits));
}

bool whole_pieces(const AttentionArgs& args) {
  const auto aligned = [](const void* data, std::size_t stride, std::size_t numbers) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride % numbers == 0;
  };
  if (args.heads.head_dim % 8 != 0 || !aligned(args.q.data, args.q.stride, 4)) return false;
  if (args.keys.type == DType::i8) return true;
  const std::uint32_t numbers = args.keys.type == DType::f32 ? 4 : 8;
  return aligned(args.keys.data, args.keys.stride, numbers) &&
         aligned(args.values.data, args.values.stride, numbers);
}

template <DType kType>
cudaError_t run_by_dims(const AttentionArgs& args, cudaStream_t stream) {
  // Variants that differ only in speed.
  const std::uint32_t dims = tile_dims(args.heads.head_dim);
  if (!whole_pieces(args)) {
    return dims > 256 ? run<kType, 512, false>(args, stream) : run<kType, 256, false>(args, stream);
  }
  switch (dims) {
    case 64:
      return run<kType, 64, true>(args, stream);
    case 128:
      return run<kType, 128, true>(args, stream);
    case 256:
      return run<kType, 256, true>(args, stream);
    default:
      return run<kType, 512, true>(args, stream);
  }
}

}  // namespace

cudaError_t attend_by_tiles(const AttentionArgs& args, cudaStream_t stream) {
  // Offsets within a row have 32 bits.
  constexpr std::size_t kStrideMax = 0xFFFFFFFFu / sizeof(float);
  if (args.keys.stride > kStrideMax || args.values.stride > kStrideMax ||
      args.keys.type != args.values.type) {
    return cudaErrorInvalidValue;
  }
  switch (args.keys.type) {
    case DType::f32:
      return run_by_dims<DType::f32>(args, stream);
    case DType::f16:
      return run_by_dims<DType::f16>(args, stream);
    case DType::i8:
      return run_by_dims<DType::i8>(args, stream);
    default:
      return run_by_dims<DType::bf16>(args, stream);
  }
}

cudaError_t attention_limits(AttentionLimits& limits) {
  const auto kernel = reinterpret_cast<const void*>(&tile_kernel<DType::f32, 128, true>);
  cudaFuncAttributes compiled{};
  cudaError_t status = block_memory_max(kernel, limits.block_bytes);
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&compiled, kernel);
  // Depends on the compile target, not on the device.
  limits.tiles = compiled.ptxVersion >= 80;
  return status;
}

}  // namespace edgedraft::cuda
