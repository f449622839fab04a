#include "kernels/cuda/device.cuh"

// Attention in two launches. The visible slots of a row, counted in slot order (a slot's *rank*),
// fall into splits of kSplitSlots, and kChunkSplits of these make a chunk. First blocks make the
// weighted sums of splits for some queries of one key-value head: scores first, then their largest,
// then weights and sums. Then the splits of a query are put together.
//
// Where there are few of them, a block makes one split: that takes the least time. Where there are
// many, it makes a chunk and puts its splits together itself: that takes less memory. The bits are
// the same, as both put a chunk together in the same steps (Sum::add).
//
// Keys, then values pass through shared memory in stages; while one is worked on, the next is on
// its way to registers. Each warp has queries of its own, so that only stages need barriers of the
// block: for scores a lane has keys, for sums it has dimensions.
//
// Why a path through a tree has the bits of the same tokens in a row: a score depends on its query
// and key alone; a largest number is exact; sums run in the order of ranks; and splits are by rank.
// How many queries share a block changes nothing in any of that.
namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kWarps = kThreads / kWarp;
constexpr std::uint32_t kHeadDimMax = 256;
constexpr std::uint32_t kTailMax = 256;
// Of tail slots in the sums: not among the split's ranks. Weights are never negative.
constexpr float kNotThere = -1.0f;

// In shared memory at a time.
constexpr std::uint32_t kStageSlots = kWarp;
static_assert(kSplitSlots == kStageSlots);
constexpr std::uint32_t kTailStages = kTailMax / kStageSlots + 1;
struct Stage {
  std::uint32_t first;  // slot
  std::uint32_t count;
  std::uint32_t tail;  // which tail stage it is, or kOfPrefix
};
constexpr std::uint32_t kOfPrefix = ~0u;

// What the kernel for heads of up to kDims numbers and kQueries queries a block has.
template <std::uint32_t kQueries, std::uint32_t kDims, bool kChunk>
struct Form {
  static constexpr bool kOfChunk = kChunk;
  static constexpr std::uint32_t kQueriesAWarp = kQueries / kWarps;
  static constexpr std::uint32_t kKeysALane = kQueriesAWarp < 4 ? 1 : 2;
  static constexpr int kUnroll = kQueriesAWarp == 1   ? 8
                                 : kQueriesAWarp == 4 ? 2
                                                      : 1;  // of scores: as registers allow
  // Pieces of four numbers of a stage that a thread brings.
  static constexpr std::uint32_t kLoads = kStageSlots * kDims / 4 / kThreads;
  static constexpr std::uint32_t kParts = kDims / (4 * kWarp);  // of four dimensions a lane
  static constexpr std::uint32_t kStride = kDims + 4;           // no two lanes' rows in one bank

  // Its first five members are read four floats at a time.
  struct alignas(16) Shared {
    float queries[kQueries][kStride];
    float tile[kStageSlots][kStride];
    float weights[kQueries][kSplitSlots];  // scores, then e^(score - largest); by rank in the split
    float placed[kQueries][kStageSlots];   // of a tail stage's slots, or kNotThere
    float totals[kChunk ? kQueries : 1][kStride];  // of the chunk's splits so far
    std::uint32_t visible[kQueries];               // slots that a query sees in all
    // Of tail stages: which of its slots a query sees, and the rank of the first of them.
    std::uint32_t seen[kQueries][kTailStages];
    std::uint32_t ranks[kQueries][kTailStages];
    Stage stages[1 + kTailStages];
    std::uint32_t stage_count;  // 0: no query sees anything of the split
  };

  // A stage on its way: four numbers a piece, as they are stored.
  struct Pieces {
    uint4 bits[kLoads];
  };
};

// What a block works on.
struct Place {
  std::uint32_t kv_head;
  std::uint32_t first_query;  // counted over rows and the heads of a group
  std::uint32_t query_count;
  std::uint32_t prefix;
  std::uint32_t begin;  // ranks of the split
  std::uint32_t end;
};

__device__ inline std::uint32_t prefix_of(const AttentionArgs& a) {
  return a.prefix_now != nullptr ? *a.prefix_now : a.prefix;
}
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

// --- stages ---

// The tail slot from which tail stage i goes up to where the next begins: such that the slots of a
// chain have the ranks of whole splits.
__device__ inline std::uint32_t tail_begin(std::uint32_t prefix, std::uint32_t i) {
  return i == 0 ? 0 : i * kStageSlots - prefix % kStageSlots;
}
__device__ inline std::uint32_t tail_stages(std::uint32_t prefix, std::uint32_t tail_slots) {
  return tail_slots == 0 ? 0 : ceil_div(tail_slots + prefix % kStageSlots, kStageSlots);
}

// Bits `begin` up to `end`, at most 32 of them, of a mask.
__device__ inline std::uint32_t bits_between(const std::uint64_t* mask, std::uint32_t begin,
                                             std::uint32_t end) {
  const std::uint32_t word = begin / 64;
  const std::uint32_t shift = begin % 64;
  std::uint64_t bits = mask[word] >> shift;
  if (shift > 32 && word + 1 < kMaskWords) bits |= mask[word + 1] << (64 - shift);
  const std::uint32_t count = end - begin;
  return static_cast<std::uint32_t>(bits) & (count < 32 ? (1u << count) - 1 : ~0u);
}

// Whether four numbers of a row can be read at once.
__device__ inline bool in_pieces(const AttentionArgs& a, const Cache& cache) {
  const std::uint32_t bytes = cache.type == CacheType::f32 ? 4 : 2;
  return a.heads.head_dim % 4 == 0 && cache.stride % 4 == 0 &&
         reinterpret_cast<std::uintptr_t>(cache.data) % (4 * bytes) == 0;
}

// Calls visit(i, slot of the stage, dimension) with the pieces of this thread. Rows have room for a
// power of two of them, so that no division is needed.
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

// Starts reading keys or values of a stage.
template <class Form>
__device__ void fetch(const AttentionArgs& a, const Cache& cache, const Place& p,
                      const Stage& stage, typename Form::Pieces& pieces) {
  if (!in_pieces(a, cache)) return;
  const std::uint32_t bytes = cache.type == CacheType::f32 ? 4 : 2;
  const std::size_t offset = std::size_t{p.kv_head} * a.heads.head_dim;
  for_each_piece<Form>(a, stage.count, [&](std::uint32_t i, std::uint32_t slot, std::uint32_t d) {
    const std::byte* from = cache_row(cache, stage.first + slot) + (offset + d) * bytes;
    if (cache.type == CacheType::f32) {
      pieces.bits[i] = *reinterpret_cast<const uint4*>(from);
    } else {
      const uint2 pair = *reinterpret_cast<const uint2*>(from);
      pieces.bits[i] = make_uint4(pair.x, pair.y, 0, 0);
    }
  });
}

__device__ inline float4 numbers_of(CacheType type, const uint4& bits) {
  if (type == CacheType::f32) {
    return make_float4(__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                       __uint_as_float(bits.w));
  }
  const auto number = [type](std::uint32_t half) {
    const auto stored = static_cast<std::uint16_t>(half);
    return type == CacheType::f16 ? half_to_float(stored) : bfloat16_to_float(stored);
  };
  return make_float4(number(bits.x & 0xFFFFu), number(bits.x >> 16), number(bits.y & 0xFFFFu),
                     number(bits.y >> 16));
}

// Puts what `fetch` brought into the tile; what it could not, a number at a time. Rows end with
// zeros up to a whole piece.
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
  for (std::uint32_t at = threadIdx.x; at < stage.count * padded(head_dim); at += kThreads) {
    const std::uint32_t slot = at / padded(head_dim);
    const std::uint32_t d = at % padded(head_dim);
    s.tile[slot][d] =
        d < head_dim ? cache_number(cache.type, cache_row(cache, stage.first + slot), offset + d)
                     : 0.0f;
  }
}

// --- the parts of a split ---

// Queries and masks to shared memory; behind a barrier they are there.
template <class Form>
__device__ void load_queries(const AttentionArgs& a, const Place& p, typename Form::Shared& s) {
  static_assert(Form::kQueriesAWarp * kWarps <= kThreads);
  const std::uint32_t head_dim = a.heads.head_dim;
  const float scale = 1.0f / sqrtf(static_cast<float>(head_dim));
  for (std::uint32_t j = threadIdx.x / kWarp; j < p.query_count; j += kWarps) {
    const std::uint32_t query = p.first_query + j;
    const std::uint32_t head = p.kv_head * a.heads.group + query % a.heads.group;
    const float* from = a.q.data + query / a.heads.group * a.q.stride + head * head_dim;
    for (std::uint32_t d = threadIdx.x % kWarp; d < padded(head_dim); d += kWarp) {
      s.queries[j][d] = d < head_dim ? from[d] * scale : 0.0f;
    }
  }
  const std::uint32_t stage_count = tail_stages(p.prefix, a.tail_slots);
  for (std::uint32_t at = threadIdx.x; at < p.query_count * (stage_count + 1); at += kThreads) {
    const std::uint32_t j = at / (stage_count + 1);
    const std::uint32_t stage = at % (stage_count + 1);
    if (stage_count == 0) {
      s.visible[j] = p.prefix;
      continue;
    }
    const std::uint32_t row = (p.first_query + j) / a.heads.group;
    const std::uint64_t* mask = a.masks + row * kMaskWords;
    if (stage == stage_count) {
      s.visible[j] = p.prefix + shown_below(mask, kTailMax);
    } else {
      const std::uint32_t begin = tail_begin(p.prefix, stage);
      const std::uint32_t end = tail_begin(p.prefix, stage + 1);
      s.seen[j][stage] = bits_between(mask, begin, end < a.tail_slots ? end : a.tail_slots);
      s.ranks[j][stage] = p.prefix + shown_below(mask, begin);
    }
  }
}

// By the first warp: the stages with ranks of a split that reaches behind the prefix. Behind a
// barrier they are there.
template <class Form>
__device__ void find_stages(const AttentionArgs& a, const Place& p, typename Form::Shared& s) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  std::uint32_t count = 0;
  if (p.begin < p.prefix) {
    if (lane == 0) s.stages[0] = {p.begin, p.prefix - p.begin, kOfPrefix};
    ++count;
  }
  const std::uint32_t tail_count = tail_stages(p.prefix, a.tail_slots);
  std::uint32_t has = 0;  // a bit a stage
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
      s.stages[count] = {p.prefix + begin, (end < a.tail_slots ? end : a.tail_slots) - begin, i};
    }
    ++count;
  }
  if (lane == 0) s.stage_count = count;
}

// The rank in the split of a slot of a tail stage; negative where a query does not see it or it is
// another split's.
template <class Shared>
__device__ std::int32_t rank_in_split(const Place& p, const Shared& s, std::uint32_t j,
                                      const Stage& stage, std::uint32_t slot) {
  const std::uint32_t seen = s.seen[j][stage.tail];
  if ((seen >> slot & 1u) == 0) return -1;
  const std::uint32_t rank = s.ranks[j][stage.tail] + bits_of(seen & ((1u << slot) - 1));
  return rank >= p.begin && rank < p.end ? static_cast<std::int32_t>(rank - p.begin) : -1;
}

// A lane some keys with some of its warp's queries: what it reads of either goes with all of the
// other, as shared memory gives each lane its own copy.
template <class Form>
__device__ void make_scores(const AttentionArgs& a, const Place& p, const Stage& stage,
                            std::uint32_t first_query, typename Form::Shared& s) {
  constexpr std::uint32_t kKeys = Form::kKeysALane;
  constexpr std::uint32_t kOfLane = Form::kQueriesAWarp / kKeys;
  constexpr std::uint32_t kLanes = kStageSlots / kKeys;  // that have all keys
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t first_slot = lane % kLanes;
  const std::uint32_t first = first_query + lane / kLanes * kOfLane;
  float4 sums[kKeys][kOfLane] = {};
#pragma unroll Form::kUnroll
  for (std::uint32_t d = 0; d < a.heads.head_dim; d += 4) {
    float4 keys[kKeys];
#pragma unroll
    for (std::uint32_t k = 0; k < kKeys; ++k) {
      keys[k] = *reinterpret_cast<const float4*>(&s.tile[first_slot + k * kLanes][d]);
    }
#pragma unroll
    for (std::uint32_t i = 0; i < kOfLane; ++i) {
      const float4 q = *reinterpret_cast<const float4*>(&s.queries[first + i][d]);
#pragma unroll
      for (std::uint32_t k = 0; k < kKeys; ++k) {
        sums[k][i].x = fmaf(keys[k].x, q.x, sums[k][i].x);
        sums[k][i].y = fmaf(keys[k].y, q.y, sums[k][i].y);
        sums[k][i].z = fmaf(keys[k].z, q.z, sums[k][i].z);
        sums[k][i].w = fmaf(keys[k].w, q.w, sums[k][i].w);
      }
    }
  }
#pragma unroll
  for (std::uint32_t k = 0; k < kKeys; ++k) {
    const std::uint32_t slot = first_slot + k * kLanes;
    if (slot >= stage.count) break;
#pragma unroll
    for (std::uint32_t i = 0; i < kOfLane; ++i) {
      const std::uint32_t j = first + i;
      if (j >= p.query_count) break;
      const std::int32_t rank = stage.tail != kOfPrefix
                                    ? rank_in_split(p, s, j, stage, slot)
                                    : static_cast<std::int32_t>(stage.first + slot - p.begin);
      const float4& sum = sums[k][i];
      if (rank >= 0) s.weights[j][rank] = (sum.x + sum.z) + (sum.y + sum.w);
    }
  }
}

// Turns the scores of a query into weights: those of ranks that it sees, zeros behind them. Largest
// score and sum of weights, in every lane. Each rank is a lane's.
__device__ inline void make_weights(float (&weights)[kSplitSlots], std::uint32_t count,
                                    float& largest, float& sum) {
  const std::uint32_t rank = threadIdx.x % kWarp;
  const float score = rank < count ? weights[rank] : -INFINITY;
  largest = warp_max(score);
  const float weight = rank < count ? expf(score - largest) : 0.0f;
  weights[rank] = weight;
  sum = warp_sum(weight);
}

// Weights of a tail stage's slots for the warp's queries.
template <class Form>
__device__ void place_weights(const Place& p, const Stage& stage, std::uint32_t first_query,
                              typename Form::Shared& s) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  for (std::uint32_t j = first_query; j < first_query + Form::kQueriesAWarp; ++j) {
    if (j >= p.query_count) break;
    const std::int32_t rank = rank_in_split(p, s, j, stage, lane);
    s.placed[j][lane] = rank < 0 ? kNotThere : s.weights[j][rank];
  }
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

__device__ inline void add_weighted(float weight, const float4& value, float4& sum) {
  sum.x = fmaf(weight, value.x, sum.x);
  sum.y = fmaf(weight, value.y, sum.y);
  sum.z = fmaf(weight, value.z, sum.z);
  sum.w = fmaf(weight, value.w, sum.w);
}
__device__ inline float number(const float4& v, std::uint32_t i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Adds the values of a stage. `weights`: of its slots, a row a query.
template <class Form, bool kTail>
__device__ void add_values(const float* weights, std::uint32_t count,
                           const typename Form::Shared& s,
                           Sum<Form::kParts> (&sums)[Form::kQueriesAWarp]) {
  constexpr std::uint32_t kOfWarp = Form::kQueriesAWarp;
  const std::uint32_t lane = threadIdx.x % kWarp;
  // One, two, three or four slots from `slot` on.
  const auto add = [&](std::uint32_t slot, std::uint32_t slots) {
    float4 w[kOfWarp];
#pragma unroll
    for (std::uint32_t i = 0; i < kOfWarp; ++i) {
      w[i] = *reinterpret_cast<const float4*>(weights + i * kStageSlots + slot);
    }
#pragma unroll
    for (std::uint32_t n = 0; n < 4; ++n) {
      if (n >= slots) break;
#pragma unroll
      for (std::uint32_t part = 0; part < Form::kParts; ++part) {
        const float4 value =
            *reinterpret_cast<const float4*>(&s.tile[slot + n][(part * kWarp + lane) * 4]);
#pragma unroll
        for (std::uint32_t i = 0; i < kOfWarp; ++i) {
          const float weight = number(w[i], n);
          if (!kTail || !(weight < 0.0f)) add_weighted(weight, value, sums[i].values[part]);
        }
      }
    }
  };
  std::uint32_t slot = 0;
#pragma unroll 2
  for (; slot + 4 <= count; slot += 4) add(slot, 4);
  if (slot < count) add(slot, count - slot);
}

// --- the first launch ---

// Makes the sums of the warp's queries. The first stage is on its way where it is of the prefix; at
// the end that of the split behind is, where the block makes that as well (`more_of_prefix`).
// False, and nothing done, where no query sees anything of the split.
template <class Form>
__device__ bool make_split(const AttentionArgs& a, const Place& p, bool more_of_prefix,
                           typename Form::Pieces& pieces, typename Form::Shared& s,
                           Sum<Form::kParts> (&sums)[Form::kQueriesAWarp]) {
  constexpr std::uint32_t kOfWarp = Form::kQueriesAWarp;
  const std::uint32_t first_query = threadIdx.x / kWarp * kOfWarp;
  const bool has_queries = first_query < p.query_count;
  const bool in_prefix = p.end <= p.prefix;
  std::uint32_t stage_count = 1;
  if (!in_prefix) {
    if (threadIdx.x < kWarp) find_stages<Form>(a, p, s);
    __syncthreads();
    stage_count = s.stage_count;
    if (stage_count == 0) return false;
    if (p.begin >= p.prefix) fetch<Form>(a, a.keys, p, s.stages[0], pieces);
  }
  const auto stage_at = [&](std::uint32_t i) {
    return in_prefix ? Stage{p.begin, kStageSlots, kOfPrefix} : s.stages[i];
  };
  for (std::uint32_t n = 0; n < 2 * stage_count; ++n) {
    const bool of_keys = n < stage_count;
    const Stage stage = stage_at(of_keys ? n : n - stage_count);
    put<Form>(a, of_keys ? a.keys : a.values, p, stage, pieces, s);
    __syncthreads();
    if (n + 1 < stage_count) {
      fetch<Form>(a, a.keys, p, stage_at(n + 1), pieces);
    } else if (n + 1 < 2 * stage_count) {
      fetch<Form>(a, a.values, p, stage_at(n + 1 - stage_count), pieces);
    } else if (more_of_prefix) {
      const std::uint32_t left = p.prefix - p.end;
      fetch<Form>(a, a.keys, p, {p.end, left < kStageSlots ? left : kStageSlots, kOfPrefix},
                  pieces);
    }
    if (has_queries && of_keys) {
      make_scores<Form>(a, p, stage, first_query, s);
      __syncwarp();
      if (n + 1 == stage_count) {
#pragma unroll
        for (std::uint32_t i = 0; i < kOfWarp; ++i) {
          const std::uint32_t j = first_query + i;
          if (j >= p.query_count) break;
          const std::uint32_t left = s.visible[j] > p.begin ? s.visible[j] - p.begin : 0;
          make_weights(s.weights[j], left, sums[i].largest, sums[i].weights);
        }
        __syncwarp();
      }
    } else if (has_queries && stage.tail != kOfPrefix) {
      place_weights<Form>(p, stage, first_query, s);
      __syncwarp();
      add_values<Form, true>(s.placed[first_query], stage.count, s, sums);
    } else if (has_queries) {
      add_values<Form, false>(&s.weights[first_query][stage.first - p.begin], stage.count, s, sums);
    }
    __syncthreads();
  }
  return true;
}

__device__ inline float* sum_place(const AttentionArgs& a, const Place& p, std::uint32_t j) {
  const std::uint32_t query = p.first_query + j;
  const std::size_t head = std::size_t{query / a.heads.group} * a.heads.kv_heads * a.heads.group +
                           p.kv_head * a.heads.group + query % a.heads.group;
  const AttentionSums sums = attention_sums(a.rows, a.prefix, a.tail_slots, a.heads);
  return a.scratch + (head * sums.a_head + blockIdx.x) * attention_sum_floats(a.heads.head_dim);
}

template <class Form>
__device__ float* totals_of(typename Form::Shared& s, std::uint32_t j) {
  return s.totals[Form::kOfChunk ? j : 0];
}

// A block a split, or a chunk of them.
template <std::uint32_t kQueries, std::uint32_t kDims, bool kChunk>
__global__ void __launch_bounds__(kThreads, 2) attention_kernel(AttentionArgs a) {
  take_turn();
  using F = Form<kQueries, kDims, kChunk>;
  constexpr std::uint32_t kSplits = kChunk ? kChunkSplits : 1;
  auto& s = block_memory<typename F::Shared>();
  const std::uint32_t queries = a.rows * a.heads.group;
  Place p;
  p.kv_head = blockIdx.y;
  p.first_query = blockIdx.z * kQueries;
  p.query_count = queries - p.first_query < kQueries ? queries - p.first_query : kQueries;
  p.prefix = prefix_of(a);
  p.begin = blockIdx.x * kSplits * kSplitSlots;
  p.end = p.begin + kSplitSlots;

  // The first stage is known and on its way before the queries are there.
  typename F::Pieces pieces;
  if (p.begin < p.prefix) {
    const std::uint32_t left = p.prefix - p.begin;
    fetch<F>(a, a.keys, p, {p.begin, left < kStageSlots ? left : kStageSlots, kOfPrefix}, pieces);
  }
  load_queries<F>(a, p, s);
  __syncthreads();

  const std::uint32_t first_query = threadIdx.x / kWarp * F::kQueriesAWarp;
  for (std::uint32_t split = 0; split < kSplits; ++split) {
    if (p.begin >= p.prefix + a.tail_slots) break;
    Sum<F::kParts> sums[F::kQueriesAWarp];
    const bool more_of_prefix = split + 1 < kSplits && p.end < p.prefix;
    if (!make_split<F>(a, p, more_of_prefix, pieces, s, sums)) break;
#pragma unroll
    for (std::uint32_t i = 0; i < F::kQueriesAWarp; ++i) {
      const std::uint32_t j = first_query + i;
      if (j >= p.query_count || s.visible[j] <= p.begin) continue;
      Sum<F::kParts> sum = sums[i];
      if (split > 0) {
        sum.load(totals_of<F>(s, j), a.heads.head_dim);
        __syncwarp();  // a lane stores what all have read
        sum.add(sums[i]);
      }
      const bool is_last = split + 1 == kSplits || s.visible[j] <= p.end;
      sum.store(is_last ? sum_place(a, p, j) : totals_of<F>(s, j), a.heads.head_dim);
    }
    p.begin += kSplitSlots;
    p.end += kSplitSlots;
  }
}

// --- the second launch ---

constexpr std::uint32_t kCombineThreads = 128;
constexpr std::uint32_t kCombineWarps = kCombineThreads / kWarp;

struct CombineArgs {
  AttentionArgs attention;
  AttentionSums sums;
};

// Adds `count` sums, at most kMax, that stand `stride` floats apart, to `to`, or makes it of them.
// All are read at once: what takes time here is waiting for memory.
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

// A block a query head of a row: its warps take chunks in turn, a lane has dimensions.
template <std::uint32_t kDims>
__global__ void __launch_bounds__(kCombineThreads) combine_kernel(CombineArgs args) {
  take_turn();
  constexpr std::uint32_t kParts = kDims / (4 * kWarp);
  __shared__ float4 values[kCombineWarps][kDims / 4];
  __shared__ float largest[kCombineWarps];
  __shared__ float weights[kCombineWarps];
  const AttentionArgs& a = args.attention;
  const std::uint32_t head = blockIdx.x;
  const std::uint32_t row = blockIdx.y;
  const std::uint32_t head_dim = a.heads.head_dim;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t warp = threadIdx.x / kWarp;
  std::uint32_t visible = prefix_of(a);
  if (a.masks != nullptr) visible += shown_below(a.masks + row * kMaskWords, kTailMax);
  const std::uint32_t chunk_count = ceil_div(visible, kChunkSplits * kSplitSlots);
  const std::size_t floats = attention_sum_floats(head_dim);
  const float* sums = a.scratch + (std::size_t{row} * a.heads.kv_heads * a.heads.group + head) *
                                      args.sums.a_head * floats;

  Sum<kParts> mine;
  if (args.sums.a_chunk == 1) {
    constexpr std::uint32_t kMax = 8;
    for (std::uint32_t first = warp; first < chunk_count; first += kCombineWarps * kMax) {
      const std::uint32_t left = ceil_div(chunk_count - first, kCombineWarps);
      add_sums<kMax>(sums + first * floats, kCombineWarps * floats, left < kMax ? left : kMax,
                     head_dim, first == warp, mine);
    }
  } else {
    for (std::uint32_t i = warp; i < chunk_count; i += kCombineWarps) {
      const std::uint32_t first = i * kChunkSplits;
      const std::uint32_t left = ceil_div(visible, kSplitSlots) - first;
      Sum<kParts> chunk;
      add_sums<kChunkSplits>(sums + first * floats, floats,
                             left < kChunkSplits ? left : kChunkSplits, head_dim, true, chunk);
      if (i == warp) {
        mine = chunk;
      } else {
        mine.add(chunk);
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
  const std::uint32_t warps = chunk_count < kCombineWarps ? chunk_count : kCombineWarps;
  float of_all = largest[0];
  for (std::uint32_t w = 1; w < warps; ++w) of_all = fmaxf(of_all, largest[w]);
  for (std::uint32_t d = threadIdx.x; d < head_dim; d += kCombineThreads) {
    float sum = 0.0f;
    float weight = 0.0f;
    for (std::uint32_t w = 0; w < warps; ++w) {
      const float factor = expf(largest[w] - of_all);
      sum = fmaf(number(values[w][d / 4], d % 4), factor, sum);
      weight = fmaf(weights[w], factor, weight);
    }
    a.y.data[row * a.y.stride + head * head_dim + d] = sum / weight;
  }
}

// --- launches ---

template <std::uint32_t kQueries, std::uint32_t kDims>
cudaError_t run(const AttentionArgs& args, cudaStream_t stream) {
  const AttentionSums sums = attention_sums(args.rows, args.prefix, args.tail_slots, args.heads);
  const dim3 grid(sums.a_head, args.heads.kv_heads,
                  ceil_div(args.rows * args.heads.group, kQueries));
  if (sums.a_chunk == 1) {
    return launch(attention_kernel<kQueries, kDims, true>, grid, kThreads, stream, args,
                  sizeof(typename Form<kQueries, kDims, true>::Shared));
  }
  return launch(attention_kernel<kQueries, kDims, false>, grid, kThreads, stream, args,
                sizeof(typename Form<kQueries, kDims, false>::Shared));
}

// For more queries of a key-value head, more of them share a block, and read keys and values
// together. Older processors may not have the memory for that.
cudaError_t run_by_queries(const AttentionArgs& args, cudaStream_t stream) {
  constexpr std::uint32_t kFew = 16;
  constexpr std::uint32_t kSome = 32;
  const std::uint32_t queries = args.rows * args.heads.group;
  cudaError_t status = cudaSuccess;
  const auto lacks_memory = [&] {
    if (status != cudaErrorInvalidValue) return false;
    static_cast<void>(cudaGetLastError());
    return true;
  };
  if (queries > kSome) {
    status = run<64, 128>(args, stream);
    if (!lacks_memory()) return status;
  }
  if (queries > kFew) {
    status = run<32, 128>(args, stream);
    if (!lacks_memory()) return status;
  }
  return run<8, 128>(args, stream);
}

}  // namespace

cudaError_t attention(const AttentionArgs& args, cudaStream_t stream) {
  if (args.heads.head_dim > kHeadDimMax || args.tail_slots > kTailMax) return cudaErrorInvalidValue;
  const bool small = args.heads.head_dim <= 128;
  const cudaError_t status = small ? run_by_queries(args, stream) : run<8, 256>(args, stream);
  if (status != cudaSuccess) return status;
  const AttentionSums sums = attention_sums(args.rows, args.prefix, args.tail_slots, args.heads);
  return launch(small ? combine_kernel<128> : combine_kernel<256>,
                dim3(args.heads.kv_heads * args.heads.group, args.rows), kCombineThreads, stream,
                CombineArgs{args, sums});
}

}  // namespace edgedraft::cuda
