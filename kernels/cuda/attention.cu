#include "kernels/cuda/attention.h"

#include "kernels/cuda/attention_stages.cuh"

namespace edgedraft::cuda {

using namespace attention_detail;

namespace {

// --- the parts of a split ---

// Each lane scores a subset of keys against a subset of its warp's queries, so each loaded value is
// used with all loaded values of the other operand. Lanes read shared memory separately, so reuse
// must be in registers.
template <class Form>
__device__ void make_scores(const AttentionArgs& a, const Place& p, const Stage& stage,
                            std::uint32_t first_query, typename Form::Shared& s) {
  constexpr std::uint32_t kKeys = Form::kKeysALane;
  constexpr std::uint32_t kOfLane = Form::kQueriesAWarp / kKeys;
  constexpr std::uint32_t kLanes = kStageSlots / kKeys;  // lanes that cover all keys
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

// Turns a query's scores into weights, zero past the ranks it sees; those before its window are
// marked. Returns the largest score and the sum of weights in every lane. One lane per rank.
__device__ inline void make_weights(float (&weights)[kSplitSlots], std::uint32_t begin,
                                    std::uint32_t count, float& largest, float& sum) {
  const std::uint32_t rank = threadIdx.x % kWarp;
  const bool is_seen = rank >= begin && rank < count;
  const float score = is_seen ? weights[rank] : -INFINITY;
  largest = warp_max(score);
  const float weight = is_seen ? expf(score - largest) : 0.0f;
  weights[rank] = rank < begin ? kNotThere : weight;
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
__device__ inline void add_weighted(float weight, const float4& value, float4& sum) {
  sum.x = fmaf(weight, value.x, sum.x);
  sum.y = fmaf(weight, value.y, sum.y);
  sum.z = fmaf(weight, value.z, sum.z);
  sum.w = fmaf(weight, value.w, sum.w);
}

// Adds the values of a stage. `weights`: of its slots, one row per query. kMarked: weights may be
// kNotThere.
template <class Form, bool kMarked>
__device__ void add_values(const float* weights, std::uint32_t count,
                           const typename Form::Shared& s,
                           Sum<Form::kParts> (&sums)[Form::kQueriesAWarp]) {
  constexpr std::uint32_t kOfWarp = Form::kQueriesAWarp;
  const std::uint32_t lane = threadIdx.x % kWarp;
  // One to four slots from `slot` on.
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
          if (!kMarked || !(weight < 0.0f)) add_weighted(weight, value, sums[i].values[part]);
        }
      }
    }
  };
  std::uint32_t slot = 0;
#pragma unroll 2
  for (; slot + 4 <= count; slot += 4) add(slot, 4);
  if (slot < count) add(slot, count - slot);
}

// True if a window begins after the split's first rank for one of the warp's queries.
template <class Form>
__device__ bool hides_some(const Place& p, std::uint32_t first_query,
                           const typename Form::Shared& s) {
  bool hides = false;
  for (std::uint32_t j = first_query; j < first_query + Form::kQueriesAWarp; ++j) {
    hides = hides || (j < p.query_count && s.begins[j] > p.begin);
  }
  return hides;
}

// --- the first launch ---

// Computes the sums of the warp's queries. The first stage is already in flight if it is in the
// prefix. At the end, the next split's is in flight if the block computes that as well
// (`more_of_prefix`). Returns false, having done nothing, if no query sees any slot of the split.
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
    if (threadIdx.x < kWarp) find_stages<Form>(p, s);
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
          const std::uint32_t hidden = s.begins[j] > p.begin ? s.begins[j] - p.begin : 0;
          make_weights(s.weights[j], hidden, left, sums[i].largest, sums[i].weights);
        }
        __syncwarp();
      }
    } else if (has_queries && stage.tail != kOfPrefix) {
      place_weights<Form>(p, stage, first_query, s);
      __syncwarp();
      add_values<Form, true>(s.placed[first_query], stage.count, s, sums);
    } else if (has_queries && hides_some<Form>(p, first_query, s)) {
      add_values<Form, true>(&s.weights[first_query][stage.first - p.begin], stage.count, s, sums);
    } else if (has_queries) {
      add_values<Form, false>(&s.weights[first_query][stage.first - p.begin], stage.count, s, sums);
    }
    __syncthreads();
  }
  return true;
}

// First split or chunk of a sequence that a window reaches, and how many there are from it on.
__device__ inline std::uint32_t first_piece(const AttentionSequence& sequence,
                                            std::uint32_t piece_slots) {
  return sequence.begin / piece_slots;
}
__device__ inline std::uint32_t piece_count(const AttentionSequence& sequence,
                                            std::uint32_t piece_slots) {
  return ceil_div(sequence.prefix + sequence.tail_slots, piece_slots) -
         first_piece(sequence, piece_slots);
}

template <class Form>
__device__ float* totals_of(typename Form::Shared& s, std::uint32_t j) {
  return s.totals[Form::kOfChunk ? j : 0];
}

// Blocks per multiprocessor, which bounds a kernel's registers.
template <std::uint32_t kQueries, std::uint32_t kDims>
constexpr int kBlocksAtATime = kQueries == 8 && kDims == 128 ? 3 : 2;

// One block per split, or per chunk.
template <std::uint32_t kQueries, std::uint32_t kDims, bool kChunk>
__global__ void __launch_bounds__(kThreads, kBlocksAtATime<kQueries, kDims>)
    attention_kernel(AttentionArgs a) {
  take_turn();
  using F = Form<kQueries, kDims, kChunk>;
  constexpr std::uint32_t kSplits = kChunk ? kChunkSplits : 1;
  constexpr std::uint32_t kPieceSlots = kSplits * kSplitSlots;
  auto& s = block_memory<typename F::Shared>();
  // Kept in shared memory: registers are scarce.
  const AttentionSequence sequence = find_sequence<kThreads>(a, s);
  if (sequence.rows == 0) return;
  const std::uint32_t block = blockIdx.x - sequence.first_block;
  const std::uint32_t pieces_a_query = piece_count(sequence, kPieceSlots);
  const std::uint32_t queries = sequence.rows * a.heads.group;
  Place p;
  p.kv_head = blockIdx.y;
  p.first_query = block / pieces_a_query * kQueries;
  if (p.first_query >= queries) return;
  p.query_count = queries - p.first_query < kQueries ? queries - p.first_query : kQueries;
  p.pages_at = sequence.pages_at;
  p.prefix = sequence.prefix;
  p.begin = (first_piece(sequence, kPieceSlots) + block % pieces_a_query) * kPieceSlots;
  p.end = p.begin + kSplitSlots;

  // The first stage is known and in flight before the queries arrive.
  typename F::Pieces pieces;
  if (p.begin < p.prefix) {
    const std::uint32_t left = p.prefix - p.begin;
    fetch<F>(a, a.keys, p, {p.begin, left < kStageSlots ? left : kStageSlots, kOfPrefix}, pieces);
  }
  load_queries<F>(a, sequence, p, s);
  __syncthreads();

  const std::uint32_t first_query = threadIdx.x / kWarp * F::kQueriesAWarp;
  for (std::uint32_t split = 0; split < kSplits; ++split) {
    if (p.begin >= p.prefix + s.sequence.tail_slots) break;
    Sum<F::kParts> sums[F::kQueriesAWarp];
    const bool more_of_prefix = split + 1 < kSplits && p.end < p.prefix;
    if (!make_split<F>(a, p, more_of_prefix, pieces, s, sums)) break;
#pragma unroll
    for (std::uint32_t i = 0; i < F::kQueriesAWarp; ++i) {
      const std::uint32_t j = first_query + i;
      if (j >= p.query_count || s.visible[j] <= p.begin || s.begins[j] >= p.end) continue;
      Sum<F::kParts> sum = sums[i];
      if (split > 0 && s.begins[j] < p.begin) {
        sum.load(totals_of<F>(s, j), a.heads.head_dim);
        __syncwarp();  // one lane stores what all have read
        sum.add(sums[i]);
      }
      const bool is_last = split + 1 == kSplits || s.visible[j] <= p.end;
      sum.store(is_last ? sum_place(a, s.sequence, p.kv_head, p.first_query + j,
                                    p.begin / kPieceSlots - first_piece(s.sequence, kPieceSlots),
                                    piece_count(s.sequence, kPieceSlots))
                        : totals_of<F>(s, j),
                a.heads.head_dim);
    }
    p.begin += kSplitSlots;
    p.end += kSplitSlots;
  }
}

// --- launches ---

template <std::uint32_t kQueries, std::uint32_t kDims>
cudaError_t run(const AttentionArgs& args, cudaStream_t stream) {
  const dim3 grid(args.plan.blocks, args.heads.kv_heads);
  if (args.plan.block_splits != 1) {
    return launch(attention_kernel<kQueries, kDims, true>, grid, kThreads, stream, args,
                  sizeof(typename Form<kQueries, kDims, true>::Shared));
  }
  return launch(attention_kernel<kQueries, kDims, false>, grid, kThreads, stream, args,
                sizeof(typename Form<kQueries, kDims, false>::Shared));
}

cudaError_t run_by_queries(const AttentionArgs& args, cudaStream_t stream) {
  if (args.heads.head_dim > 128) return run<8, 256>(args, stream);
  switch (args.plan.block_queries) {
    case 8:
      return run<8, 128>(args, stream);
    case 32:
      return run<32, 128>(args, stream);
    default:
      return run<64, 128>(args, stream);
  }
}

}  // namespace

cudaError_t attention(const AttentionArgs& args, cudaStream_t stream) {
  // Checks the first launch's output against scratch: the plan may differ from the caller's.
  if (attention_scratch_floats(args.plan, args.heads) > args.scratch_floats) {
    return cudaErrorInvalidValue;
  }
  const cudaError_t status =
      args.plan.tiles != 0 ? attend_by_tiles(args, stream) : run_by_queries(args, stream);
  return status == cudaSuccess ? combine_attention(args, stream) : status;
}

}  // namespace edgedraft::cuda
