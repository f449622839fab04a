#pragma once

#include <type_traits>

#include "kernels/cuda/attention_terms.cuh"

// A warp's work on a split: scores, weights and weighted sums of 16 queries over 32 slots. Keys and
// values go from memory to the registers of the lanes that multiply them, 16 bytes at a time.
namespace edgedraft::cuda::attention_tiles {

// Kernel for heads of up to kDims elements. kWhole: rows are aligned multiples of 16 bytes.
template <DType kType_, std::uint32_t kDims, bool kWhole_>
struct Form {
  static constexpr DType kType = kType_;
  static constexpr bool kWhole = kWhole_;
  using Numbers = std::conditional_t<kType == DType::i8 && !kWhole, Int8Floats, Stored<kType>>;
  static constexpr std::uint32_t kTerms = Numbers::kTerms;
  static constexpr std::uint32_t kPiece = Numbers::kPiece;
  // Scores advance by 16 dimensions. Lane 4 g + t loads eight of each 32 per key, from 8 t on.
  static constexpr std::uint32_t kSteps = kDims / 16;
  static constexpr std::uint32_t kSegments = kDims / 32;
  static constexpr std::uint32_t kKeyPieces = 8 / kPiece;
  // Key loads in flight.
  static constexpr std::uint32_t kAhead = kType == DType::f32 || !kWhole ? 1 : 2;
  // Value dimensions per block; larger heads use several blocks. Column c of tile j of a group is
  // dimension kPiece * c + j, so that a lane loads whole pieces.
  static constexpr std::uint32_t kValueDims = kDims < 128 || !kWhole ? 64 : 128;
  static constexpr std::uint32_t kGroups = kValueDims / (8 * kPiece);
};

// Rows of one cache at one head. Heads of int8 may begin inside a block: `data` is where rows
// begin, and `first` the head's first element.
struct HeadRows {
  const std::byte* data;
  std::uint32_t first;  // 0 for other types
  std::uint32_t row_bytes;

  __device__ const std::byte* operator[](std::uint32_t row) const {
    return data + std::size_t{row} * row_bytes;
  }
};
template <class F>
__device__ HeadRows head_rows(const Cache& cache, std::uint32_t head, std::uint32_t head_dim) {
  const auto row_bytes = static_cast<std::uint32_t>(cache_bytes(F::kType, cache.stride));
  if (F::kType == DType::i8) return {cache.data, head * head_dim, row_bytes};
  return {cache.data + cache_bytes(F::kType, std::size_t{head} * head_dim), 0, row_bytes};
}

// A lane's two queries, g and g + 8 of the tile.
struct TwoQueries {
  std::uint32_t rows[2];     // rows of the sequence
  std::uint32_t visible[2];  // slots; 0: no such query
  std::uint32_t begins[2];   // first ranks in their windows
};

// Weighted sums of a warp's queries, each relative to its largest score. A lane has columns 2 t and
// 2 t + 1 of each tile, first those of query g, then those of query g + 8.
template <class F>
struct TileSums {
  float largest[2];
  float weights[2];
  float values[F::kGroups][F::kPiece][4];
};

// Rescaling factors for sums relative to `largest` and to `other`; `largest` becomes the larger of
// both. Matches Sum::add.
struct Factors {
  float mine;
  float others;
};
__device__ inline Factors join(float& largest, float& weights, float other, float other_weights) {
  const float both = fmaxf(largest, other);
  const Factors factors = {expf(largest - both), expf(other - both)};
  largest = both;
  weights = fmaf(other_weights, factors.others, weights * factors.mine);
  return factors;
}

// Slots of a split that some rows see: lane l holds the cache row of rank l. Before `begin`, and
// from `count` on, weights are zero, and lanes hold the row of rank `begin`, which all of them see.
struct Round {
  std::uint32_t row;
  std::uint32_t begin;
  std::uint32_t count;
  bool takes[2];   // which of the lane's queries take part
  bool starts[2];  // whether this is their first split of a chunk
};

template <class F>
using KeyPieces = uint4[4][F::kKeyPieces];
template <class F>
using ValuePieces = uint4[2][4];

// Keys of 32 slots, 32 dimensions: a lane has slots g, g + 8, g + 16 and g + 24.
template <class F>
__device__ void load_keys(const HeadRows& keys, const std::uint32_t (&rows)[4],
                          std::uint32_t segment, std::uint32_t head_dim, KeyPieces<F>& pieces) {
  const std::uint32_t d = segment * 32 + threadIdx.x % 4 * 8;
#pragma unroll
  for (std::uint32_t j = 0; j < 4; ++j) {
#pragma unroll
    for (std::uint32_t i = 0; i < F::kKeyPieces; ++i) {
      pieces[j][i] = F::Numbers::template load<F::kWhole>(keys[rows[j]], keys.first,
                                                          d + i * F::kPiece, head_dim);
    }
  }
}

// scores += queries by keys of 32 slots: tile j has eight slots, from 8 j on.
template <class F>
__device__ void make_scores(const HeadRows& keys, const Round& round, std::uint32_t head_dim,
                            const uint4* queries, float (&scores)[4][4]) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  std::uint32_t rows[4];
#pragma unroll
  for (std::uint32_t j = 0; j < 4; ++j) {
    rows[j] = __shfl_sync(kAllLanes, round.row, static_cast<int>(8 * j + lane / 4));
  }
  KeyPieces<F> pieces[F::kAhead + 1];
#pragma unroll
  for (std::uint32_t i = 0; i < F::kAhead && i < F::kSegments; ++i) {
    load_keys<F>(keys, rows, i, head_dim, pieces[i]);
  }
#pragma unroll
  for (std::uint32_t segment = 0; segment < F::kSegments; ++segment) {
    if (segment * 32 >= head_dim) break;
    if (segment + F::kAhead < F::kSegments) {
      load_keys<F>(keys, rows, segment + F::kAhead, head_dim,
                   pieces[(segment + F::kAhead) % (F::kAhead + 1)]);
    }
    const KeyPieces<F>& now = pieces[segment % (F::kAhead + 1)];
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      std::uint32_t b[4][F::kTerms][2];
#pragma unroll
      for (std::uint32_t j = 0; j < 4; ++j) {
#pragma unroll
        for (std::uint32_t pair = 0; pair < 2; ++pair) {
          const std::uint32_t at = 4 * half + 2 * pair;
          std::uint32_t terms[F::kTerms];
          F::Numbers::terms_of(now[j][at / F::kPiece], at % F::kPiece, terms);
#pragma unroll
          for (std::uint32_t i = 0; i < F::kTerms; ++i) b[j][i][pair] = terms[i];
        }
      }
      std::uint32_t q[kTileTerms][4];
#pragma unroll
      for (std::uint32_t i = 0; i < kTileTerms; ++i) {
        const uint4 words = queries[((2 * segment + half) * kTileTerms + i) * kWarp + lane];
        q[i][0] = words.x, q[i][1] = words.y, q[i][2] = words.z, q[i][3] = words.w;
      }
      multiply<F::kTerms>(q, b, scores);
    }
  }
}

// Turns scores into weights. Each query's four lanes receive its largest score and its sum of
// weights. `terms` are the weights in matrix instruction layout, 16 slots each.
__device__ inline void make_weights(const Round& round, float (&scores)[4][4], float (&largest)[2],
                                    float (&sums)[2], std::uint32_t (&terms)[2][kTileTerms][4]) {
  const std::uint32_t first = threadIdx.x % 4 * 2;
  const auto is_seen = [&](std::uint32_t rank) {
    return rank >= round.begin && rank < round.count;
  };
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    float most = -INFINITY;
#pragma unroll
    for (std::uint32_t j = 0; j < 4; ++j) {
#pragma unroll
      for (std::uint32_t i = 0; i < 2; ++i) {
        most = fmaxf(most, is_seen(8 * j + first + i) ? scores[j][2 * half + i] : -INFINITY);
      }
    }
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
    float sum = 0.0f;
#pragma unroll
    for (std::uint32_t j = 0; j < 4; ++j) {
#pragma unroll
      for (std::uint32_t i = 0; i < 2; ++i) {
        float& score = scores[j][2 * half + i];
        const float weight = expf(score - most);
        score = is_seen(8 * j + first + i) ? weight : 0.0f;
        sum += score;
      }
    }
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    largest[half] = most;
    sums[half] = sum;
  }
#pragma unroll
  for (std::uint32_t step = 0; step < 2; ++step) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      const float(&pair)[4] = scores[2 * step + i / 2];
      std::uint32_t words[kTileTerms];
      split_numbers(pair[i % 2 * 2], pair[i % 2 * 2 + 1], words);
#pragma unroll
      for (std::uint32_t term = 0; term < kTileTerms; ++term) terms[step][term][i] = words[term];
    }
  }
}

// Values of a group's dimensions. A lane has slots 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of each 16.
template <class F>
__device__ void load_values(const HeadRows& values, const std::uint32_t (&rows)[2][4],
                            std::uint32_t first, std::uint32_t head_dim, ValuePieces<F>& pieces) {
  const std::uint32_t d = first + threadIdx.x % kWarp / 4 * F::kPiece;
#pragma unroll
  for (std::uint32_t step = 0; step < 2; ++step) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      pieces[step][i] =
          F::Numbers::template load<F::kWhole>(values[rows[step][i]], values.first, d, head_dim);
    }
  }
}

template <class F>
__device__ void add_values(const ValuePieces<F>& pieces,
                           const std::uint32_t (&weights)[2][kTileTerms][4],
                           float (&sums)[F::kPiece][4]) {
#pragma unroll
  for (std::uint32_t step = 0; step < 2; ++step) {
#pragma unroll
    for (std::uint32_t first = 0; first < F::kPiece; first += 4) {
      std::uint32_t b[4][F::kTerms][2];
#pragma unroll
      for (std::uint32_t j = 0; j < 4; ++j) {
#pragma unroll
        for (std::uint32_t pair = 0; pair < 2; ++pair) {
          std::uint32_t terms[F::kTerms];
          F::Numbers::terms_of(pieces[step][2 * pair], pieces[step][2 * pair + 1], first + j,
                               terms);
#pragma unroll
          for (std::uint32_t i = 0; i < F::kTerms; ++i) b[j][i][pair] = terms[i];
        }
      }
      multiply<F::kTerms>(weights[step], b, &sums[first]);
    }
  }
}

// Adds a split to the sums, or initializes them, for the participating queries.
template <class F>
__device__ void add_split(const HeadRows& keys, const HeadRows& values, const Round& round,
                          std::uint32_t head_dim, std::uint32_t first_value, const uint4* queries,
                          TileSums<F>& sums) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  float scores[4][4] = {};
  make_scores<F>(keys, round, head_dim, queries, scores);

  std::uint32_t rows[2][4];
#pragma unroll
  for (std::uint32_t step = 0; step < 2; ++step) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t rank = 16 * step + i / 2 * 8 + lane % 4 * 2 + i % 2;
      rows[step][i] = __shfl_sync(kAllLanes, round.row, static_cast<int>(rank));
    }
  }
  ValuePieces<F> next;
  load_values<F>(values, rows, first_value, head_dim, next);

  float largest[2];
  float of_weights[2];
  std::uint32_t weights[2][kTileTerms][4];
  make_weights(round, scores, largest, of_weights, weights);
  Factors factors[2] = {};
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    if (!round.takes[half]) continue;
    if (round.starts[half]) {
      sums.largest[half] = largest[half];
      sums.weights[half] = of_weights[half];
    } else {
      factors[half] = join(sums.largest[half], sums.weights[half], largest[half], of_weights[half]);
    }
  }
#pragma unroll
  for (std::uint32_t group = 0; group < F::kGroups; ++group) {
    const std::uint32_t first = first_value + group * 8 * F::kPiece;
    if (first >= head_dim) break;
    ValuePieces<F> now;
#pragma unroll
    for (std::uint32_t i = 0; i < 8; ++i) now[i / 4][i % 4] = next[i / 4][i % 4];
    if (group + 1 < F::kGroups) {
      load_values<F>(values, rows, first + 8 * F::kPiece, head_dim, next);
    }
    float of_split[F::kPiece][4] = {};
    add_values<F>(now, weights, of_split);
#pragma unroll
    for (std::uint32_t j = 0; j < F::kPiece; ++j) {
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        float& sum = sums.values[group][j][i];
        const Factors& f = factors[i / 2];
        if (!round.takes[i / 2]) continue;
        sum = round.starts[i / 2] ? of_split[j][i] : fmaf(of_split[j][i], f.others, sum * f.mine);
      }
    }
  }
}

}  // namespace edgedraft::cuda::attention_tiles
