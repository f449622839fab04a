#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/mma.cuh"

// Attention's first launch on matrix instructions. A warp makes the sums of a piece for a tile of
// 16 queries, all by itself: keys and values go from memory to the registers of the lanes that
// multiply them, 16 bytes at a time, and warps of a block that read the same ones find them in the
// first cache. Shared memory has the queries, which all splits need again.
//
// Matrix instructions take fewer digits than float32 has, so numbers become sums of bfloat16:
// queries and weights of three, float32 keys and values of three, float16 of two, bfloat16 of one.
// Products are added smallest first. Terms that are zero add nothing, so a cache has the bits of a
// float32 cache of the same numbers.
//
// Splits that lie in the prefix are alike for all rows. Others take several rounds: rows that see
// the same slots share one. A round has slots in the order of ranks and none that its rows do not
// see, so that each weight meets its value in the same place of the same instruction as in plain
// decoding, and what stands in other slots, be it NaN, does not matter.
//
// Processors before 8.0 have no such instructions: their kernels are empty and never launched
// (attention_limits).
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define EDGEDRAFT_ATTENTION_TILES 1
#else
#pragma nv_diag_suppress 177  // what the empty kernels do not use
#endif

namespace edgedraft::cuda {

using namespace attention_detail;

namespace {

constexpr std::uint32_t kThreads = kTileWarps * kWarp;

// Which terms of ours and of the cache's numbers make product i; those behind are too small.
constexpr std::uint32_t kProducts = 6;
__host__ __device__ constexpr std::uint32_t our_term(std::uint32_t i) {
  return i == 0 ? 2 : i == 1 || i == 3 ? 1 : 0;
}
__host__ __device__ constexpr std::uint32_t cache_term(std::uint32_t i) {
  return i == 2 ? 2 : i == 1 || i == 4 ? 1 : 0;
}

// sums[j] += ours by the numbers of the cache in b[j], four tiles side by side.
template <std::uint32_t kTerms>
__device__ void multiply(const std::uint32_t (&ours)[kTileTerms][4],
                         const std::uint32_t (&b)[4][kTerms][2], float (*sums)[4]) {
#pragma unroll
  for (std::uint32_t product = 0; product < kProducts; ++product) {
    const std::uint32_t term = cache_term(product);
    if (term >= kTerms) continue;
#pragma unroll
    for (std::uint32_t j = 0; j < 4; ++j) {
      mma_bfloat16(sums[j], ours[our_term(product)], b[j][term % kTerms]);
    }
  }
}

// Two numbers as terms, a word a term.
template <std::uint32_t kCount>
__device__ void split_numbers(float first, float second, std::uint32_t (&terms)[kCount]) {
#pragma unroll
  for (std::uint32_t i = 0; i < kCount; ++i) {
    terms[i] = bfloat16_pair(first, second);
    first -= __uint_as_float(terms[i] << 16);
    second -= __uint_as_float(terms[i] & 0xFFFF0000u);
  }
}

// How a cache's numbers are loaded: pieces of 16 bytes.
template <DType kType>
struct Stored {
  static constexpr std::uint32_t kBytes = kType == DType::f32 ? 4 : 2;
  static constexpr std::uint32_t kPiece = 16 / kBytes;
  static constexpr std::uint32_t kTerms = kType == DType::f32 ? 3 : kType == DType::f16 ? 2 : 1;

  // From number d of a head on. What is behind its last number does not matter where rows are
  // whole, as queries are zero there, nor are such sums stored: so nothing has to be asked for.
  template <bool kWhole>
  __device__ static uint4 load(const std::byte* head, std::uint32_t d, std::uint32_t head_dim) {
    if (kWhole) {
      return *reinterpret_cast<const uint4*>(head + (d < head_dim ? d : 0) * kBytes);
    }
    std::uint32_t words[4] = {};
    for (std::uint32_t i = 0; i < kPiece && d + i < head_dim; ++i) {
      if (kType == DType::f32) {
        words[i] = reinterpret_cast<const std::uint32_t*>(head)[d + i];
      } else {
        words[i / 2] |= std::uint32_t{reinterpret_cast<const std::uint16_t*>(head)[d + i]}
                        << i % 2 * 16;
      }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  __device__ static std::uint32_t word(const uint4& piece, std::uint32_t i) {
    return i == 0 ? piece.x : i == 1 ? piece.y : i == 2 ? piece.z : piece.w;
  }
  __device__ static float number(const uint4& piece, std::uint32_t i) {
    if (kType == DType::f32) return __uint_as_float(word(piece, i));
    const auto stored = static_cast<std::uint16_t>(word(piece, i / 2) >> i % 2 * 16 & 0xFFFFu);
    return kType == DType::f16 ? half_to_float(stored) : bfloat16_to_float(stored);
  }

  // Neighbours i and i + 1 of a piece.
  __device__ static void terms_of(const uint4& piece, std::uint32_t i,
                                  std::uint32_t (&terms)[kTerms]) {
    if (kType == DType::bf16) {
      terms[0] = word(piece, i / 2);
    } else {
      split_numbers(number(piece, i), number(piece, i + 1), terms);
    }
  }
  // Number i of two pieces.
  __device__ static void terms_of(const uint4& first, const uint4& second, std::uint32_t i,
                                  std::uint32_t (&terms)[kTerms]) {
    if (kType == DType::bf16) {
      const std::uint32_t low = word(first, i / 2);
      const std::uint32_t high = word(second, i / 2);
      terms[0] = i % 2 == 0 ? (low & 0xFFFFu) | high << 16 : low >> 16 | (high & 0xFFFF0000u);
    } else {
      split_numbers(number(first, i), number(second, i), terms);
    }
  }
};

// The kernel for heads of up to kDims numbers. kWhole: rows are whole, aligned pieces.
template <DType kType_, std::uint32_t kDims, bool kWhole_>
struct Form {
  static constexpr DType kType = kType_;
  static constexpr bool kWhole = kWhole_;
  using Numbers = Stored<kType>;
  static constexpr std::uint32_t kTerms = Numbers::kTerms;
  static constexpr std::uint32_t kPiece = Numbers::kPiece;
  // Scores take 16 dimensions in a step. Of 32, lane 4 g + t has 8 t.. of its keys.
  static constexpr std::uint32_t kSteps = kDims / 16;
  static constexpr std::uint32_t kStretches = kDims / 32;
  static constexpr std::uint32_t kKeyPieces = 8 / kPiece;
  // Stretches of keys on their way.
  static constexpr std::uint32_t kAhead = kType == DType::f32 || !kWhole ? 1 : 2;
  // Values of a block, others are another block's. Column c of tile j of a group is dimension
  // kPiece * c + j of it, so that a lane has pieces.
  static constexpr std::uint32_t kValueDims = kDims < 128 || !kWhole ? 64 : 128;
  static constexpr std::uint32_t kGroups = kValueDims / (8 * kPiece);
};

// Rows of one cache at one head.
struct HeadRows {
  const std::byte* data;
  std::uint32_t row_bytes;

  __device__ const std::byte* operator[](std::uint32_t row) const {
    return data + std::size_t{row} * row_bytes;
  }
};
template <class F>
__device__ HeadRows head_rows(const Cache& cache, std::uint32_t head, std::uint32_t head_dim) {
  return {cache.data + std::size_t{head} * head_dim * F::Numbers::kBytes,
          static_cast<std::uint32_t>(cache.stride) * F::Numbers::kBytes};
}

// Of a lane's two queries, g and g + 8 of the tile.
struct TwoQueries {
  std::uint32_t rows[2];     // of the sequence
  std::uint32_t visible[2];  // slots; 0: no such query
};

// The weighted sums of a warp's queries, each relative to its largest score. Of query g a lane has
// columns 2 t and 2 t + 1 of each tile, then of query g + 8.
template <class F>
struct TileSums {
  float largest[2];
  float weights[2];
  float values[F::kGroups][F::kPiece][4];
};

// What numbers relative to `largest` and to `other` are multiplied by, to be relative to the larger
// one, which `largest` becomes. As Sum::add.
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

// Slots of a split that some rows see: lane l has the cache's row of rank l in it; from `count` on,
// where weights are zero, that of rank 0, which they see as well.
struct Round {
  std::uint32_t row;
  std::uint32_t count;
  bool takes[2];  // which of the lane's queries take part
};

template <class F>
using KeyPieces = uint4[4][F::kKeyPieces];
template <class F>
using ValuePieces = uint4[2][4];

// Keys of 32 slots, 32 dimensions: a lane has those of slots g, g + 8, g + 16 and g + 24.
template <class F>
__device__ void load_keys(const HeadRows& keys, const std::uint32_t (&rows)[4],
                          std::uint32_t stretch, std::uint32_t head_dim, KeyPieces<F>& pieces) {
  const std::uint32_t d = stretch * 32 + threadIdx.x % 4 * 8;
#pragma unroll
  for (std::uint32_t j = 0; j < 4; ++j) {
#pragma unroll
    for (std::uint32_t i = 0; i < F::kKeyPieces; ++i) {
      pieces[j][i] =
          F::Numbers::template load<F::kWhole>(keys[rows[j]], d + i * F::kPiece, head_dim);
    }
  }
}

// scores += queries by keys of 32 slots: tile j of them has slots 8 j..
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
  for (std::uint32_t i = 0; i < F::kAhead && i < F::kStretches; ++i) {
    load_keys<F>(keys, rows, i, head_dim, pieces[i]);
  }
#pragma unroll
  for (std::uint32_t stretch = 0; stretch < F::kStretches; ++stretch) {
    if (stretch * 32 >= head_dim) break;
    if (stretch + F::kAhead < F::kStretches) {
      load_keys<F>(keys, rows, stretch + F::kAhead, head_dim,
                   pieces[(stretch + F::kAhead) % (F::kAhead + 1)]);
    }
    const KeyPieces<F>& now = pieces[stretch % (F::kAhead + 1)];
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
        const uint4 words = queries[((2 * stretch + half) * kTileTerms + i) * kWarp + lane];
        q[i][0] = words.x, q[i][1] = words.y, q[i][2] = words.z, q[i][3] = words.w;
      }
      multiply<F::kTerms>(q, b, scores);
    }
  }
}

// Turns scores into weights: largest score and sum of weights of each query in its four lanes, and
// the weights' terms as a matrix instruction takes them, 16 slots each.
__device__ inline void make_weights(std::uint32_t count, float (&scores)[4][4], float (&largest)[2],
                                    float (&sums)[2], std::uint32_t (&terms)[2][kTileTerms][4]) {
  const std::uint32_t first = threadIdx.x % 4 * 2;
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    float most = -INFINITY;
#pragma unroll
    for (std::uint32_t j = 0; j < 4; ++j) {
#pragma unroll
      for (std::uint32_t i = 0; i < 2; ++i) {
        most = fmaxf(most, 8 * j + first + i < count ? scores[j][2 * half + i] : -INFINITY);
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
        score = 8 * j + first + i < count ? weight : 0.0f;
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

// Values of a group's dimensions: a lane has those of slots 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of
// each 16.
template <class F>
__device__ void load_values(const HeadRows& values, const std::uint32_t (&rows)[2][4],
                            std::uint32_t first, std::uint32_t head_dim, ValuePieces<F>& pieces) {
  const std::uint32_t d = first + threadIdx.x % kWarp / 4 * F::kPiece;
#pragma unroll
  for (std::uint32_t step = 0; step < 2; ++step) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      pieces[step][i] = F::Numbers::template load<F::kWhole>(values[rows[step][i]], d, head_dim);
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

// Adds a split, or makes the sums of it (`is_first`), for the queries that take part.
template <class F>
__device__ void add_split(const HeadRows& keys, const HeadRows& values, const Round& round,
                          std::uint32_t head_dim, std::uint32_t first_value, const uint4* queries,
                          bool is_first, TileSums<F>& sums) {
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
  make_weights(round.count, scores, largest, of_weights, weights);
  Factors factors[2] = {};
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    if (!round.takes[half]) continue;
    if (is_first) {
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
        sum = is_first ? of_split[j][i] : fmaf(of_split[j][i], f.others, sum * f.mine);
      }
    }
  }
}

// --- which slots ---

// Place of set bit n, counted from 0, of at least n + 1.
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
// The slot of a rank behind the prefix, of those that a mask shows.
__device__ inline std::uint32_t tail_slot(const std::uint64_t* mask, std::uint32_t rank) {
#pragma unroll
  for (std::uint32_t word = 0; word < kMaskWords; ++word) {
    const std::uint32_t shown = bits_of(mask[word]);
    if (rank < shown) return word * 64 + set_bit(mask[word], rank);
    rank -= shown;
  }
  return 0;
}

// What a warp works on.
struct Work {
  std::uint32_t prefix;
  const std::uint64_t* masks;  // null: nothing behind the prefix
  const AttentionRow* rows;
  const std::uint32_t* pages;

  // How many ranks of a split a row has.
  __device__ std::uint32_t count(std::uint32_t row, std::uint32_t begin) const {
    const std::uint32_t visible = rows[row].visible;
    const std::uint32_t left = visible > begin ? visible - begin : 0;
    return left < kSplitSlots ? left : kSplitSlots;
  }
  // The slot of a rank that the row has.
  __device__ std::uint32_t slot(std::uint32_t row, std::uint32_t rank) const {
    if (rank < prefix) return rank;
    return prefix + tail_slot(masks + row * kMaskWords, rank - prefix);
  }
  __device__ std::uint32_t cache_row(std::uint32_t slot, std::uint32_t page_slots) const {
    return pages == nullptr ? slot : pages[slot / page_slots] * page_slots + slot % page_slots;
  }
};

// Queries of the block as terms, in the order of lanes: for each 16 dimensions and each term the
// four words of a lane.
template <class F>
__device__ void load_queries(const AttentionArgs& a, const AttentionSequence& sequence,
                             std::uint32_t first_query, std::uint32_t queries, uint4* to) {
  const std::uint32_t head_dim = a.heads.head_dim;
  const float scale = 1.0f / sqrtf(static_cast<float>(head_dim));
  const std::uint32_t tiles = a.plan.block_queries / kTileQueries;
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
      for (float& number : x[half]) number *= scale;
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
      for (std::uint32_t i = 0; i < 2 * F::kPiece; i += 4) {  // of the lane's two columns
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

// Puts a chunk's sums behind those of the section so far, which a lane keeps in shared memory.
template <class F>
struct Section {
  float4* values;  // a lane's own, kWarp apart
  float largest[2];
  float weights[2];

  // `chunk` becomes the sums of the section with it.
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

// Blocks at a time on a multiprocessor, as far as registers do not run short.
template <DType kType, std::uint32_t kDims>
constexpr int kBlocksAtATime = kDims == 64 && kType == DType::bf16 ? 3 : 2;

// The only barrier of the block is behind its queries; then warps are on their own.
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
  const std::uint32_t tiles = a.plan.block_queries / kTileQueries;
  const std::uint32_t block_pieces = kTileWarps / tiles;
  const std::uint32_t piece_slots = a.plan.block_splits * kSplitSlots;
  const std::uint32_t pieces = ceil_div(slots, piece_slots);
  const std::uint32_t piece_blocks = ceil_div(pieces, block_pieces);
  const std::uint32_t block = blockIdx.x - sequence.first_block;
  const std::uint32_t block_query = block / piece_blocks * a.plan.block_queries;
  if (block_query >= queries) return;
  load_queries<F>(a, sequence, block_query, queries, s.queries());
  __syncthreads();

  const std::uint32_t tile = warp % tiles;
  const std::uint32_t first_query = block_query + tile * kTileQueries;
  const std::uint32_t piece = block % piece_blocks * block_pieces + warp / tiles;
  if (first_query >= queries || piece >= pieces) return;
  const uint4* const tile_queries = s.queries() + tile * F::kSteps * kTileTerms * kWarp;
  const std::uint32_t first_value = blockIdx.z * F::kValueDims;
  const HeadRows keys = head_rows<F>(a.keys, blockIdx.y, head_dim);
  const HeadRows values = head_rows<F>(a.values, blockIdx.y, head_dim);
  const Work work = {
      sequence.prefix, reinterpret_cast<const std::uint64_t*>(a.table + sequence.masks_at),
      reinterpret_cast<const AttentionRow*>(a.table + a.plan.table_sequences * kSequenceWords) +
          sequence.first_row,
      a.keys.page_slots != 0 ? a.table + sequence.pages_at : nullptr};
  const std::uint32_t first_row = first_query / a.heads.group;
  const std::uint32_t left = queries - first_query;
  const std::uint32_t last_row =
      (first_query + (left < kTileQueries ? left : kTileQueries) - 1) / a.heads.group;
  TwoQueries mine;
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    const std::uint32_t query = first_query + lane / 4 + 8 * half;
    mine.rows[half] = query / a.heads.group;
    mine.visible[half] = query < queries ? work.rows[mine.rows[half]].visible : 0;
  }

  TileSums<F> sums = {};
  Section<F> section = {};
  section.values = reinterpret_cast<float4*>(s.queries() + tiles * F::kSteps * kTileTerms * kWarp) +
                   warp * F::kGroups * F::kPiece * kWarp + lane;
  for (std::uint32_t split = 0; split < a.plan.block_splits; ++split) {
    const std::uint32_t begin = piece * piece_slots + split * kSplitSlots;
    if (begin >= slots) break;
    const bool is_first = split % kChunkSplits == 0;
    for (std::uint32_t row = first_row; row <= last_row;) {
      Round round;
      std::uint32_t end_row = last_row + 1;
      if (begin + kSplitSlots <= sequence.prefix) {
        round.count = kSplitSlots;
        round.row = work.cache_row(begin + lane, a.keys.page_slots);
      } else {
        round.count = work.count(row, begin);
        if (round.count > 0) {
          const std::uint32_t rank = begin + (lane < round.count ? lane : 0);
          const std::uint32_t slot = work.slot(row, rank);
          for (end_row = row + 1; end_row <= last_row; ++end_row) {
            if (work.count(end_row, begin) != round.count) break;
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
      }
      if (round.count > 0) {
        add_split<F>(keys, values, round, head_dim, first_value, tile_queries, is_first, sums);
      }
      row = end_row;
    }
    const bool ends = split + 1 == a.plan.block_splits || begin + kSplitSlots >= slots;
    if (split >= kChunkSplits && (ends || (split + 1) % kChunkSplits == 0)) {
      const std::uint32_t chunk_begin =
          piece * piece_slots + split / kChunkSplits * kChunkSplits * kSplitSlots;
      const bool has[2] = {mine.visible[0] > chunk_begin, mine.visible[1] > chunk_begin};
      section.join_with(has, sums);
    }
    if (!ends && (split + 1) % kChunkSplits == 0) section.keep(sums);
  }
  const bool has[2] = {mine.visible[0] > piece * piece_slots,
                       mine.visible[1] > piece * piece_slots};
  store_sums<F>(a, sequence, first_query, piece, pieces, first_value, has, sums);
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
  const std::uint32_t numbers = args.keys.type == DType::f32 ? 4 : 8;
  return args.heads.head_dim % 8 == 0 && aligned(args.q.data, args.q.stride, 4) &&
         aligned(args.keys.data, args.keys.stride, numbers) &&
         aligned(args.values.data, args.values.stride, numbers);
}

template <DType kType>
cudaError_t run_by_dims(const AttentionArgs& args, cudaStream_t stream) {
  // These differ in speed alone.
  if (!whole_pieces(args)) return run<kType, 256, false>(args, stream);
  switch (tile_dims(args.heads.head_dim)) {
    case 64:
      return run<kType, 64, true>(args, stream);
    case 128:
      return run<kType, 128, true>(args, stream);
    default:
      return run<kType, 256, true>(args, stream);
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
    default:
      return run_by_dims<DType::bf16>(args, stream);
  }
}

cudaError_t attention_limits(AttentionLimits& limits) {
  cudaFuncAttributes compiled{};
  cudaError_t status = block_memory_max(limits.block_bytes);
  if (status == cudaSuccess) {
    status = cudaFuncGetAttributes(
        &compiled, reinterpret_cast<const void*>(&tile_kernel<DType::f32, 128, true>));
  }
  // What the code was compiled for, not what the device could do.
  limits.tiles = compiled.ptxVersion >= 80;
  return status;
}

}  // namespace edgedraft::cuda
