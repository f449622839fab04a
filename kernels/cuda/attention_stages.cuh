#pragma once

#include "kernels/cuda/attention.cuh"

// Shared memory of a block of attention's first launch: queries, stages of keys or values, the
// visible tail slots per query, and how they are loaded.
namespace edgedraft::cuda::attention_detail {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kWarps = kThreads / kWarp;
// Marks tail slots outside the split's ranks. Weights are never negative.
constexpr float kNotThere = -1.0f;

// Slots in shared memory at a time.
constexpr std::uint32_t kStageSlots = kWarp;
static_assert(kSplitSlots == kStageSlots);
constexpr std::uint32_t kTailStages = kTailMax / kStageSlots + 1;
struct Stage {
  std::uint32_t first;  // slot
  std::uint32_t count;
  std::uint32_t tail;  // index of the tail stage, or kOfPrefix
};
constexpr std::uint32_t kOfPrefix = ~0u;

// Layout of the kernel for heads of up to kDims elements and kQueries queries per block.
template <std::uint32_t kQueries, std::uint32_t kDims, bool kChunk>
struct Form {
  static constexpr bool kOfChunk = kChunk;
  static constexpr std::uint32_t kQueriesAWarp = kQueries / kWarps;
  static constexpr std::uint32_t kKeysALane = kQueriesAWarp < 4 ? 1 : 2;
  static constexpr int kUnroll = kQueriesAWarp == 1   ? 8
                                 : kQueriesAWarp == 4 ? 2
                                                      : 1;  // score columns, limited by registers
  // Pieces of four elements of a stage per thread.
  static constexpr std::uint32_t kLoads = kStageSlots * kDims / 4 / kThreads;
  static constexpr std::uint32_t kParts = kDims / (4 * kWarp);  // parts of four dimensions per lane
  static constexpr std::uint32_t kStride = kDims + 4;           // rows of different lanes are in
                                                                // different banks

  // The first five members are read four floats at a time.
  struct alignas(16) Shared {
    float queries[kQueries][kStride];
    float tile[kStageSlots][kStride];
    float weights[kQueries][kSplitSlots];  // scores, then e^(score - largest); by rank in the split
    float placed[kQueries][kStageSlots];   // weights of a tail stage's slots, or kNotThere
    float totals[kChunk ? kQueries : 1][kStride];  // totals over the chunk's splits so far
    std::uint32_t visible[kQueries];               // total slots visible to a query
    std::uint32_t begins[kQueries];                // first rank in a query's window
    // Per tail stage: its slots visible to a query, and the rank of the first of them.
    std::uint32_t seen[kQueries][kTailStages];
    std::uint32_t ranks[kQueries][kTailStages];
    Stage stages[1 + kTailStages];
    std::uint32_t stage_count;  // 0: no query sees any slot of the split
    AttentionSequence sequence;
  };

  // A stage in flight: four elements per piece, in storage format.
  struct Pieces {
    uint4 bits[kLoads];
  };
};

// A block's work.
struct Place {
  std::uint32_t kv_head;
  std::uint32_t pages_at;     // in the table
  std::uint32_t first_query;  // index within the sequence, over rows and the heads of a group
  std::uint32_t query_count;
  std::uint32_t prefix;
  std::uint32_t begin;  // ranks of the split
  std::uint32_t end;
};

// --- stages ---

// First slot of tail stage i, such that the slots of a chain have the ranks of whole splits.
__device__ inline std::uint32_t tail_begin(std::uint32_t prefix, std::uint32_t i) {
  return i == 0 ? 0 : i * kStageSlots - prefix % kStageSlots;
}
__device__ inline std::uint32_t tail_stages(std::uint32_t prefix, std::uint32_t tail_slots) {
  return tail_slots == 0 ? 0 : ceil_div(tail_slots + prefix % kStageSlots, kStageSlots);
}

// Bits `begin` to `end` (exclusive, at most 32) of a mask.
__device__ inline std::uint32_t bits_between(const std::uint64_t* mask, std::uint32_t begin,
                                             std::uint32_t end) {
  const std::uint32_t word = begin / 64;
  const std::uint32_t shift = begin % 64;
  std::uint64_t bits = mask[word] >> shift;
  if (shift > 32 && word + 1 < kMaskWords) bits |= mask[word + 1] << (64 - shift);
  const std::uint32_t count = end - begin;
  return static_cast<std::uint32_t>(bits) & (count < 32 ? (1u << count) - 1 : ~0u);
}

__device__ inline const std::uint32_t* pages_of(const AttentionArgs& a, const Place& p) {
  return a.keys.page_slots != 0 ? a.table + p.pages_at : nullptr;
}

// True if four elements of a row can be read at once.
__device__ inline bool in_pieces(const AttentionArgs& a, const Cache& cache) {
  if (cache.type == DType::i8) return a.heads.head_dim % 4 == 0;
  const std::uint32_t bytes = cache.type == DType::f32 ? 4 : 2;
  return a.heads.head_dim % 4 == 0 && cache.stride % 4 == 0 &&
         reinterpret_cast<std::uintptr_t>(cache.data) % (4 * bytes) == 0;
}

// Calls visit(i, slot of the stage, dimension) for the thread's pieces. Row capacity is a power of
// two pieces, which avoids a division.
template <class Form, class Visit>
__device__ void for_each_piece(const AttentionArgs& a, std::uint32_t count, const Visit& visit) {
  const std::uint32_t pieces = a.heads.head_dim / 4;
  const std::uint32_t shift = pieces > 32 ? 6 : pieces > 16 ? 5 : pieces > 8 ? 4 : 3;
  const std::uint32_t piece = threadIdx.x & ((1u << shift) - 1);
  if (piece >= pieces) return;
#pragma unroll
  for (std::uint32_t i = 0; i < Form::kLoads; ++i) {
    const std::uint32_t slot = (threadIdx.x >> shift) + i * (kThreads >> shift);
    if (slot < count) visit(i, slot, piece * 4);
  }
}

// Starts loading keys or values of a stage.
template <class Form>
__device__ void fetch(const AttentionArgs& a, const Cache& cache, const Place& p,
                      const Stage& stage, typename Form::Pieces& pieces) {
  if (!in_pieces(a, cache)) return;
  const std::uint32_t bytes = cache.type == DType::f32 ? 4 : 2;
  const std::size_t offset = std::size_t{p.kv_head} * a.heads.head_dim;
  const std::uint32_t* pages = pages_of(a, p);
  for_each_piece<Form>(a, stage.count, [&](std::uint32_t i, std::uint32_t slot, std::uint32_t d) {
    const std::byte* row = cache_row(cache, pages, stage.first + slot);
    if (cache.type == DType::i8) {
      const auto* words = reinterpret_cast<const std::uint32_t*>(int8_block(row, offset + d));
      pieces.bits[i] = make_uint4(words[1 + (offset + d) % kInt8Block / 4], words[0], 0, 0);
      return;
    }
    const std::byte* from = row + (offset + d) * bytes;
    if (cache.type == DType::f32) {
      pieces.bits[i] = *reinterpret_cast<const uint4*>(from);
    } else {
      const uint2 pair = *reinterpret_cast<const uint2*>(from);
      pieces.bits[i] = make_uint4(pair.x, pair.y, 0, 0);
    }
  });
}

__device__ inline float4 numbers_of(DType type, const uint4& bits) {
  if (type == DType::f32) {
    return make_float4(__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                       __uint_as_float(bits.w));
  }
  if (type == DType::i8) {
    const float scale = __uint_as_float(bits.y);
    return make_float4(int8_number(bits.x, scale), int8_number(bits.x >> 8, scale),
                       int8_number(bits.x >> 16, scale), int8_number(bits.x >> 24, scale));
  }
  const auto number = [type](std::uint32_t half) {
    const auto stored = static_cast<std::uint16_t>(half);
    return type == DType::f16 ? half_to_float(stored) : bfloat16_to_float(stored);
  };
  return make_float4(number(bits.x & 0xFFFFu), number(bits.x >> 16), number(bits.y & 0xFFFFu),
                     number(bits.y >> 16));
}

// Stores the pieces of `fetch` in the tile, and the rest element by element. Rows are zero-padded
// to a whole piece.
template <class Form>
__device__ void put(const AttentionArgs& a, const Cache& cache, const Place& p, const Stage& stage,
                    const typename Form::Pieces& pieces, typename Form::Shared& s) {
  if (in_pieces(a, cache)) {
    for_each_piece<Form>(a, stage.count, [&](std::uint32_t i, std::uint32_t slot, std::uint32_t d) {
      *reinterpret_cast<float4*>(&s.tile[slot][d]) = numbers_of(cache.type, pieces.bits[i]);
    });
    return;
  }
  const std::uint32_t head_dim = a.heads.head_dim;
  const std::size_t offset = std::size_t{p.kv_head} * head_dim;
  const std::uint32_t* pages = pages_of(a, p);
  for (std::uint32_t at = threadIdx.x; at < stage.count * padded(head_dim); at += kThreads) {
    const std::uint32_t slot = at / padded(head_dim);
    const std::uint32_t d = at % padded(head_dim);
    s.tile[slot][d] =
        d < head_dim
            ? cache_number(cache.type, cache_row(cache, pages, stage.first + slot), offset + d)
            : 0.0f;
  }
}

// --- the parts of a split ---

// Loads queries and masks into shared memory; valid after a barrier.
template <class Form>
__device__ void load_queries(const AttentionArgs& a, const AttentionSequence& sequence,
                             const Place& p, typename Form::Shared& s) {
  static_assert(Form::kQueriesAWarp * kWarps <= kThreads);
  const std::uint32_t head_dim = a.heads.head_dim;
  const auto* rows =
      reinterpret_cast<const AttentionRow*>(a.table + a.plan.table_sequences * kSequenceWords) +
      sequence.first_row;
  for (std::uint32_t j = threadIdx.x; j < p.query_count; j += kThreads) {
    s.begins[j] = rows[(p.first_query + j) / a.heads.group].begin;
  }
  for (std::uint32_t j = threadIdx.x / kWarp; j < p.query_count; j += kWarps) {
    const std::uint32_t query = p.first_query + j;
    const std::uint32_t head = p.kv_head * a.heads.group + query % a.heads.group;
    const float* from =
        a.q.data + (sequence.first_row + query / a.heads.group) * a.q.stride + head * head_dim;
    for (std::uint32_t d = threadIdx.x % kWarp; d < padded(head_dim); d += kWarp) {
      s.queries[j][d] = d < head_dim ? from[d] * a.scale : 0.0f;
    }
  }
  const std::uint32_t tail_slots = sequence.tail_slots;
  const auto* masks = reinterpret_cast<const std::uint64_t*>(a.table + sequence.masks_at);
  const std::uint32_t stage_count = tail_stages(p.prefix, tail_slots);
  for (std::uint32_t at = threadIdx.x; at < p.query_count * (stage_count + 1); at += kThreads) {
    const std::uint32_t j = at / (stage_count + 1);
    const std::uint32_t stage = at % (stage_count + 1);
    if (stage_count == 0) {
      s.visible[j] = p.prefix;
      continue;
    }
    const std::uint32_t row = (p.first_query + j) / a.heads.group;
    const std::uint64_t* mask = masks + row * kMaskWords;
    if (stage == stage_count) {
      s.visible[j] = p.prefix + shown_below(mask, kTailMax);
    } else {
      const std::uint32_t begin = tail_begin(p.prefix, stage);
      const std::uint32_t end = tail_begin(p.prefix, stage + 1);
      s.seen[j][stage] = bits_between(mask, begin, end < tail_slots ? end : tail_slots);
      s.ranks[j][stage] = p.prefix + shown_below(mask, begin);
    }
  }
}

// First warp: the stages with ranks of a split that extends past the prefix; valid after a barrier.
template <class Form>
__device__ void find_stages(const Place& p, typename Form::Shared& s) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  std::uint32_t count = 0;
  if (p.begin < p.prefix) {
    if (lane == 0) s.stages[0] = {p.begin, p.prefix - p.begin, kOfPrefix};
    ++count;
  }
  const std::uint32_t tail_slots = s.sequence.tail_slots;
  const std::uint32_t tail_count = tail_stages(p.prefix, tail_slots);
  std::uint32_t has = 0;  // one bit per stage
  for (std::uint32_t j = lane; j < p.query_count; j += kWarp) {
    for (std::uint32_t i = 0; i < tail_count; ++i) {
      const std::uint32_t low = s.ranks[j][i];
      const std::uint32_t high = low + bits_of(s.seen[j][i]);
      if (high > low && low < p.end && high > p.begin) has |= 1u << i;
    }
  }
  has = warp_or(has);
  for (std::uint32_t i = 0; i < tail_count; ++i) {
    if ((has >> i & 1u) == 0) continue;
    const std::uint32_t begin = tail_begin(p.prefix, i);
    const std::uint32_t end = tail_begin(p.prefix, i + 1);
    if (lane == 0) {
      s.stages[count] = {p.prefix + begin, (end < tail_slots ? end : tail_slots) - begin, i};
    }
    ++count;
  }
  if (lane == 0) s.stage_count = count;
}

// Rank in the split of a tail stage's slot; negative if the query does not see it or it belongs to
// another split.
template <class Shared>
__device__ std::int32_t rank_in_split(const Place& p, const Shared& s, std::uint32_t j,
                                      const Stage& stage, std::uint32_t slot) {
  const std::uint32_t seen = s.seen[j][stage.tail];
  if ((seen >> slot & 1u) == 0) return -1;
  const std::uint32_t rank = s.ranks[j][stage.tail] + bits_of(seen & ((1u << slot) - 1));
  return rank >= p.begin && rank < p.end ? static_cast<std::int32_t>(rank - p.begin) : -1;
}
}  // namespace edgedraft::cuda::attention_detail
