#pragma once

#include "kernels/cuda/device.cuh"

// Attention in two launches. The visible slots of a row, counted in slot order (a slot's *rank*),
// fall into splits of kSplitSlots; kChunkSplits of these make a chunk, kSectionSplits a section.
// First blocks make the weighted sums of *pieces* for some queries of one key-value head: of each
// split scores first, then their largest, then weights and sums. Then the pieces of a query are put
// together.
//
// Where there are few splits, each is a piece: that takes the least time. Where there are many, a
// piece is a chunk or a section, whose splits are put together at once: that takes less memory. The
// bits are the same, as all put chunks and sections together in the same steps (Sum::add).
//
// There are two kernels for the first launch, with bits of their own: on matrix instructions
// (attention_tiles.cu), and for processors without them (attention.cu). There keys, then values
// pass through shared memory in stages; while one is worked on, the next is on its way to
// registers. Each warp has queries of its own, so that only stages need barriers of the block: for
// scores a lane has keys, for sums it has dimensions.
//
// Why a path through a tree has the bits of the same tokens in a row: a score depends on its query
// and key alone; a largest number is exact; sums run in the order of ranks; and splits are by rank.
// How many queries share a block changes nothing in any of that, nor who else is in the call.
//
// Rows of several sequences are one list of blocks: a sequence's follow each other, by queries and
// then by slots, and each block looks up in the table whose it is.
namespace edgedraft::cuda {

inline constexpr std::uint32_t kHeadDimMax = 256;

// The second launch: puts the sums in args.scratch together. kernels/cuda/attention_combine.cu
cudaError_t combine_attention(const AttentionArgs& args, cudaStream_t stream);
// The first launch where plan.tiles. kernels/cuda/attention_tiles.cu
cudaError_t attend_by_tiles(const AttentionArgs& args, cudaStream_t stream);

namespace attention_detail {

// --- of the launch on matrix instructions ---

inline constexpr std::uint32_t kTileQueries = 16;
inline constexpr std::uint32_t kTileWarps = 4;  // of a block
inline constexpr std::uint32_t kTileTerms = 3;  // numbers of bfloat16 that a query is the sum of

// Heads have room for so many numbers; those that no 16 bytes divide have one form for all.
constexpr std::uint32_t tile_dims(std::uint32_t head_dim) {
  if (head_dim % 8 != 0) return 256;
  return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
}
// How a sequence's work falls to blocks. Rows of a tile see the same slots of a piece that lies in
// the prefix, and a warp makes its sums for all of them. Behind the prefix each row of a tree sees
// other slots, and a warp with several rows would take them one after the other: there each row has
// a warp. Pieces that are sections stay with one warp, as most of their splits lie in the prefix.
struct TileWork {
  std::uint32_t pieces;         // of all slots
  std::uint32_t shared_pieces;  // the first of them, for all rows of a tile
  std::uint32_t block_pieces;   // shared ones that a block has
  std::uint32_t shared_blocks;  // the first blocks
  std::uint32_t tile_rows;      // rows that a tile has queries of, at most
  std::uint32_t tile_blocks;    // of the other pieces, for each tile
  std::uint32_t tiles;

  __host__ __device__ constexpr TileWork(std::uint32_t rows, std::uint32_t prefix,
                                         std::uint32_t tail_slots, const Heads& heads,
                                         const AttentionPlan& plan)
      : pieces(ceil_div(prefix + tail_slots, plan.block_splits * kSplitSlots)),
        shared_pieces(plan.block_splits == kSectionSplits || tail_slots == 0
                          ? pieces
                          : prefix / (plan.block_splits * kSplitSlots)),
        block_pieces(kTileWarps / (plan.block_queries / kTileQueries)),
        shared_blocks(ceil_div(shared_pieces, block_pieces) *
                      ceil_div(rows * heads.group, plan.block_queries)),
        tile_rows(kTileQueries % heads.group == 0 || heads.group % kTileQueries == 0
                      ? ceil_div(kTileQueries, heads.group)
                      : (kTileQueries + heads.group - 2) / heads.group + 1),
        tile_blocks(ceil_div((pieces - shared_pieces) * tile_rows, kTileWarps)),
        tiles(ceil_div(rows * heads.group, kTileQueries)) {}

  __host__ __device__ constexpr std::uint32_t blocks() const {
    return shared_blocks + tiles * tile_blocks;
  }
};
// In shared memory, before the block's queries and the sums of sections.
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

// --- of all ---

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

// The weighted sum of a split, a chunk or several of them: the largest score, the sum of weights
// and the sums of this lane's dimensions, all relative to the largest.
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

// The sequence that the block works for, or one without rows. Behind the next barrier it is in
// shared memory as well.
template <std::uint32_t kBlockThreads, class Shared>
__device__ AttentionSequence find_sequence(const AttentionArgs& a, Shared& s) {
  const auto* sequences = reinterpret_cast<const AttentionSequence*>(a.table);
  const std::uint32_t count = a.plan.table_sequences;
  if (count == 1) {
    const AttentionSequence only = sequences[0];
    if (threadIdx.x == 0) s.sequence = only;
    return only;
  }
  // One of them: the last that begins no later. Those behind the last sequence begin where it ends.
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

// Where the sums of a query of a sequence belong, of piece `piece` of so many.
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
