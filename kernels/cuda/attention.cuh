#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.cuh"

// Attention in two launches. A row's visible slots, in slot order (a slot's *rank*), form splits of
// kSplitSlots; kChunkSplits splits form a chunk, kSectionSplits a section. The first launch
// computes the weighted sums of *pieces* for some queries of one key-value head. Each split has
// scores first, then their maximum, then weights and sums. The second launch combines the pieces of
// a query.
//
// If there are few splits, each is a piece, which is fastest. If there are many, a piece is a chunk
// or a section whose splits are combined at once, which takes less memory. The bits are the same,
// since all paths combine chunks and sections in the same steps (Sum::add).
//
// The first launch has two kernels, which differ in bits: with matrix instructions
// (attention_tiles.cu), and for processors without them (attention.cu). In the latter, keys, then
// values pass through shared memory in stages; while one is processed, the next is loaded into
// registers. Each warp has its own queries, so only stages need block barriers; lanes own keys for
// scores and dimensions for sums.
//
// A row's window hides its first ranks. Splits of hidden ranks are skipped, and in the window's
// first split hidden ranks have no weight and are not read. Splits stay aligned to rank 0, so bits
// do not depend on what the window hides.
//
// A path through a tree gives the same bits as the same tokens in sequence. A score depends only on
// its query and key, maxima are exact, sums run in rank order, and splits are by rank. The number
// of queries per block and other sequences in the call change none of this.
//
// Rows of several sequences are one list of blocks, ordered by sequence, queries, then slots; each
// block looks up its sequence in the table.
namespace edgedraft::cuda {

// Widest heads, without matrix instructions and with them.
inline constexpr std::uint32_t kPlainHeadDimMax = 256;
inline constexpr std::uint32_t kHeadDimMax = 512;

// Second launch: combines the sums in args.scratch. kernels/cuda/attention_combine.cu
cudaError_t combine_attention(const AttentionArgs& args, cudaStream_t stream);
// First launch if plan.tiles. kernels/cuda/attention_tiles.cu
cudaError_t attend_by_tiles(const AttentionArgs& args, cudaStream_t stream);

namespace attention_detail {

// --- kernel with matrix instructions ---

inline constexpr std::uint32_t kTileQueries = 16;
inline constexpr std::uint32_t kTileWarps = 4;  // per block
inline constexpr std::uint32_t kTileTerms = 3;  // bfloat16 terms per query element

// Head sizes supported; heads that are not a multiple of 16 bytes share one kernel.
constexpr std::uint32_t tile_dims(std::uint32_t head_dim) {
  if (head_dim > 256) return 512;
  if (head_dim % 8 != 0) return 256;
  return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
}
// Work split of a sequence. Rows of a tile see the same slots of a piece inside the prefix, so one
// warp sums for all of them. After the prefix, each row of a tree sees other slots, and a warp with
// several rows would process them in turn. So there each row has its own warp. Pieces that are
// sections stay with one warp, since most of their splits are in the prefix.
struct TileWork {
  std::uint32_t pieces;         // pieces covering all slots
  std::uint32_t first_piece;    // earlier ones are before all windows
  std::uint32_t shared_pieces;  // those before this one are for all rows of a tile
  std::uint32_t block_pieces;   // shared pieces per block
  std::uint32_t shared_blocks;  // come first
  std::uint32_t tile_rows;      // maximum rows with queries in a tile
  std::uint32_t tile_blocks;    // for the other pieces, per tile
  std::uint32_t tiles;

  __host__ __device__ constexpr TileWork(std::uint32_t rows, std::uint32_t prefix,
                                         std::uint32_t tail_slots, std::uint32_t begin,
                                         const Heads& heads, const AttentionPlan& plan)
      : pieces(ceil_div(prefix + tail_slots, plan.block_splits * kSplitSlots)),
        first_piece(begin / (plan.block_splits * kSplitSlots)),
        shared_pieces(larger(first_piece, plan.block_splits == kSectionSplits || tail_slots == 0
                                              ? pieces
                                              : prefix / (plan.block_splits * kSplitSlots))),
        block_pieces(kTileWarps / (plan.block_queries / kTileQueries)),
        shared_blocks(ceil_div(shared_pieces - first_piece, block_pieces) *
                      ceil_div(rows * heads.group, plan.block_queries)),
        tile_rows(kTileQueries % heads.group == 0 || heads.group % kTileQueries == 0
                      ? ceil_div(kTileQueries, heads.group)
                      : (kTileQueries + heads.group - 2) / heads.group + 1),
        tile_blocks(ceil_div((pieces - shared_pieces) * tile_rows, kTileWarps)),
        tiles(ceil_div(rows * heads.group, kTileQueries)) {}

  __host__ __device__ constexpr std::uint32_t blocks() const {
    return shared_blocks + tiles * tile_blocks;
  }

 private:
  __host__ __device__ static constexpr std::uint32_t larger(std::uint32_t a, std::uint32_t b) {
    return a > b ? a : b;
  }
};
// In shared memory, before the block's queries and the sections' sums.
struct alignas(16) TileMemory {
  AttentionSequence sequence;

  __device__ uint4* queries() { return reinterpret_cast<uint4*>(this + 1); }
};
constexpr std::size_t tile_block_bytes(std::uint32_t dims, std::uint32_t block_queries,
                                       bool sections) {
  const std::size_t value_dims = dims < 128 ? dims : 128;
  return sizeof(TileMemory) + std::size_t{block_queries} * dims * kTileTerms * 2 +
         (sections ? kTileWarps * kTileQueries * value_dims * sizeof(float) : 0);
}

// --- both kernels ---

__host__ __device__ constexpr std::uint32_t padded(std::uint32_t head_dim) {
  return (head_dim + 3) / 4 * 4;
}

__device__ inline std::uint32_t bits_of(std::uint64_t mask) {
  return static_cast<std::uint32_t>(__popcll(static_cast<long long>(mask)));
}
// Tail slots below `slot` (at most kTailMax) that a mask shows.
__device__ inline std::uint32_t shown_below(const std::uint64_t* mask, std::uint32_t slot) {
  std::uint32_t count = 0;
#pragma unroll
  for (std::uint32_t word = 0; word < kMaskWords; ++word) {
    const std::uint32_t from = word * 64;
    if (slot >= from + 64) {
      count += bits_of(mask[word]);
    } else if (slot > from) {
      count += bits_of(mask[word] & ((std::uint64_t{1} << (slot - from)) - 1));
    }
  }
  return count;
}

__device__ inline float number(const float4& v, std::uint32_t i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Weighted sum of one or more splits: largest score, sum of weights, and this lane's dimensions,
// all relative to the largest score.
template <std::uint32_t kParts>
struct Sum {
  float largest = -INFINITY;
  float weights = 0.0f;
  float4 values[kParts] = {};

  __device__ void add(const Sum& other) {
    const float both = fmaxf(largest, other.largest);
    const float mine = expf(largest - both);
    const float others = expf(other.largest - both);
    largest = both;
    weights = fmaf(other.weights, others, weights * mine);
#pragma unroll
    for (std::uint32_t part = 0; part < kParts; ++part) {
      float4& v = values[part];
      const float4& o = other.values[part];
      v.x = fmaf(o.x, others, v.x * mine);
      v.y = fmaf(o.y, others, v.y * mine);
      v.z = fmaf(o.z, others, v.z * mine);
      v.w = fmaf(o.w, others, v.w * mine);
    }
  }

  __device__ void store(float* to, std::uint32_t head_dim) const {
    const std::uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
    for (std::uint32_t part = 0; part < kParts; ++part) {
      const std::uint32_t d = (part * kWarp + lane) * 4;
      if (d < head_dim) *reinterpret_cast<float4*>(to + d) = values[part];
    }
    if (lane != 0) return;
    to[padded(head_dim)] = largest;
    to[padded(head_dim) + 1] = weights;
  }
  __device__ void load(const float* from, std::uint32_t head_dim) {
    const std::uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
    for (std::uint32_t part = 0; part < kParts; ++part) {
      const std::uint32_t d = (part * kWarp + lane) * 4;
      if (d < head_dim) values[part] = *reinterpret_cast<const float4*>(from + d);
    }
    largest = from[padded(head_dim)];
    weights = from[padded(head_dim) + 1];
  }
};

// --- sequences ---

// Finds the block's sequence, or one without rows. It is also in shared memory after the next
// barrier.
template <std::uint32_t kBlockThreads, class Shared>
__device__ AttentionSequence find_sequence(const AttentionArgs& a, Shared& s) {
  const auto* sequences = reinterpret_cast<const AttentionSequence*>(a.table);
  const std::uint32_t count = a.plan.table_sequences;
  if (count == 1) {
    const AttentionSequence only = sequences[0];
    if (threadIdx.x == 0) s.sequence = only;
    return only;
  }
  // The last sequence that starts no later. Unused entries start where the last sequence ends.
  for (std::uint32_t i = threadIdx.x; i < count; i += kBlockThreads) {
    const AttentionSequence sequence = sequences[i];
    const bool begins = sequence.first_block <= blockIdx.x;
    if (begins && (i + 1 == count || sequences[i + 1].first_block > blockIdx.x)) {
      s.sequence = sequence;
    }
  }
  __syncthreads();
  return s.sequence;
}

// Location of the sums of a sequence's query for piece `piece` of `pieces`, from the first that a
// window reaches on.
__device__ inline float* sum_place(const AttentionArgs& a, const AttentionSequence& sequence,
                                   std::uint32_t kv_head, std::uint32_t query, std::uint32_t piece,
                                   std::uint32_t pieces) {
  const std::size_t head = std::size_t{query / a.heads.group} * a.heads.kv_heads * a.heads.group +
                           kv_head * a.heads.group + query % a.heads.group;
  return a.scratch +
         (sequence.first_sum + head * pieces + piece) * attention_sum_floats(a.heads.head_dim);
}

}  // namespace attention_detail
}  // namespace edgedraft::cuda
