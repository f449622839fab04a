#include "kernels/cpu/attend.h"

#include <cmath>

#include "kernels/cpu/dot_tile.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/pages.h"

// Visible slots are taken by rank, in blocks of 64, with a running maximum and sum (online
// softmax). A slot's place in memory never matters, so a path through a tree gives the bits of the
// same tokens in a row. Whole blocks of the prefix have the same ranks for all rows and are shared
// by a tile's rows; the ranks behind them are each row's own.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

constexpr std::size_t kBlock = 64;

// A block's visible slots in order of rank; pointers to one key-value head, whose numbers are of a
// type W (weights.h) and become float32 in registers.
struct Slots {
  const std::byte* keys[kBlock];
  const std::byte* values[kBlock];
  std::size_t count = 0;
};

// The query heads of one row that share a key-value head.
struct Queries {
  std::size_t heads;
  std::size_t head_dim;
  std::size_t stride;  // head_dim in whole lanes
  float* q;            // [heads, stride], zero-padded
  float* sums;         // [heads, stride], values weighted by e^(score - maximum)
  float* maximum;      // [heads]
  float* total;        // [heads], of the weights
  float* scores;       // [heads, kBlock]
};

// --- scores[h, j] = q[h] . key[j] ---

template <class W, std::size_t R>
void score_heads(const Queries& qs, const Slots& slots, std::size_t head) {
  constexpr std::size_t C = tile_columns(R);
  DotTile<W, R, C> tile;
  tile.first = 0;
  tile.count = qs.head_dim;
  for (std::size_t r = 0; r < R; ++r) tile.x[r] = qs.q + (head + r) * qs.stride;
  static_assert(kBlock % C == 0);
  for (std::size_t j = 0; j < slots.count; j += C) {
    // Slots past the end repeat the last one; their scores are overwritten.
    for (std::size_t c = 0; c < C; ++c) tile.w[c] = slots.keys[smaller(j + c, slots.count - 1)];
    typename DotTile<W, R, C>::Sums sums;
    sums.clear();
    tile.add_to(sums);
    float totals[R * C];
    total<R, C>(sums, totals);
    for (std::size_t r = 0; r < R; ++r) {
      std::memcpy(qs.scores + (head + r) * kBlock + j, totals + r * C, C * sizeof(float));
    }
  }
}

// --- scores become weights; returns what shrinks the sums of the earlier blocks ---

float weigh(const Queries& qs, const Slots& slots, std::size_t head) {
  float* scores = qs.scores + head * kBlock;
  const float scale = 1.0f / std::sqrt(static_cast<float>(qs.head_dim));
  for (std::size_t j = slots.count; j < kBlock; ++j) scores[j] = -__builtin_inff();

  Lanes score[kBlock / kLanes];
  Lanes block_maximum = all(-__builtin_inff());
  for (std::size_t i = 0; i < kBlock / kLanes; ++i) {
    score[i] = load(scores + i * kLanes) * all(scale);
    block_maximum = larger(score[i], block_maximum);
  }
  const float before = qs.maximum[head];
  const float found = largest(block_maximum);
  const float maximum = found > before ? found : before;

  Lanes weights = all(0.0f);
  for (std::size_t i = 0; i < kBlock / kLanes; ++i) {
    const Lanes weight = exp(score[i] - all(maximum));
    store(scores + i * kLanes, weight);
    weights = weights + weight;
  }
  float shrink[kLanes];
  store(shrink, exp(all(before - maximum)));
  qs.maximum[head] = maximum;
  qs.total[head] = qs.total[head] * shrink[0] + sum(weights);
  return shrink[0];
}

// --- sums[h] = shrink[h] * sums[h] + sum_j weight[h, j] * value[j], slots in order ---

// V registers of dimensions from `d`, which may run past head_dim only in the last register.
template <class W, std::size_t R, std::size_t V>
void add_values(const Queries& qs, const Slots& slots, const float* shrink, std::size_t head,
                std::size_t d) {
  Part sums[R][V];
  for (std::size_t r = 0; r < R; ++r) {
    for (std::size_t v = 0; v < V; ++v) {
      sums[r][v] =
          load_part(qs.sums + (head + r) * qs.stride + d + v * kPartLanes) * all_part(shrink[r]);
    }
  }
  const bool is_padded = d + V * kPartLanes > qs.head_dim;
  std::byte padded[kPartLanes * W::kElementBytes] = {};
  for (std::size_t j = 0; j < slots.count; ++j) {
    const std::byte* from = slots.values[j] + d * W::kElementBytes;
    if (is_padded) {
      std::memcpy(padded, from, (qs.head_dim - d) * W::kElementBytes);
      from = padded;
    }
    const auto group = W::group(from, 0);
    Part value[V];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < V; ++v) value[v] = W::part(group, v * kPartLanes);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < R; ++r) {
      const Part weight = all_part(qs.scores[(head + r) * kBlock + j]);
#pragma GCC unroll 8
      for (std::size_t v = 0; v < V; ++v) sums[r][v] = fma(weight, value[v], sums[r][v]);
    }
  }
  for (std::size_t r = 0; r < R; ++r) {
    for (std::size_t v = 0; v < V; ++v) {
      store_part(qs.sums + (head + r) * qs.stride + d + v * kPartLanes, sums[r][v]);
    }
  }
}

template <class W, std::size_t R>
void attend_heads(const Queries& qs, const Slots& slots, std::size_t head) {
  constexpr std::size_t V = 4;
  score_heads<W, R>(qs, slots, head);
  float shrink[R];
  for (std::size_t r = 0; r < R; ++r) shrink[r] = weigh(qs, slots, head + r);
  std::size_t d = 0;
  for (; d + V * kPartLanes <= qs.head_dim; d += V * kPartLanes) {
    add_values<W, R, V>(qs, slots, shrink, head, d);
  }
  for (; d < qs.head_dim; d += kPartLanes) add_values<W, R, 1>(qs, slots, shrink, head, d);
}

template <class W, std::size_t R>
void attend_some_heads(const Queries& qs, const Slots& slots, std::size_t head, std::size_t count) {
  if (count == R) {
    attend_heads<W, R>(qs, slots, head);
  } else if constexpr (R > 1) {
    attend_some_heads<W, R - 1>(qs, slots, head, count);
  }
}

template <class W>
void attend_block(const Queries& qs, const Slots& slots) {
  for (std::size_t head = 0; head < qs.heads; head += kTileRowsMax) {
    attend_some_heads<W, kTileRowsMax>(qs, slots, head, smaller(kTileRowsMax, qs.heads - head));
  }
}

// --- a tile ---

template <class W>
class Tile {
 public:
  Tile(const AttendTile& t, std::size_t kv_head, float* scratch)
      : t_(t), kv_head_(kv_head), stride_(round_up(t.heads.head_dim, kLanes)), scratch_(scratch) {}

  void run() {
    for (std::size_t row = 0; row < t_.rows; ++row) start(row);
    const std::size_t shared = t_.prefix / kBlock * kBlock;
    Slots slots;
    for (std::size_t first = 0; first < shared; first += kBlock) {
      for (std::size_t j = 0; j < kBlock; ++j) push(slots, first + j);
      for (std::size_t row = 0; row < t_.rows; ++row) attend_block<W>(queries(row), slots);
      slots.count = 0;
    }
    for (std::size_t row = 0; row < t_.rows; ++row) {
      attend_own(row, shared);
      finish(row);
    }
  }

 private:
  Queries queries(std::size_t row) const {
    const std::size_t heads = t_.heads.group;
    const std::size_t count = t_.rows * heads;
    const std::size_t first = row * heads;
    float* sums = scratch_ + count * stride_;
    float* maximum = sums + count * stride_;
    return {.heads = heads,
            .head_dim = t_.heads.head_dim,
            .stride = stride_,
            .q = scratch_ + first * stride_,
            .sums = sums + first * stride_,
            .maximum = maximum + first,
            .total = maximum + count + first,
            .scores = maximum + 2 * count};
  }

  std::size_t query_column() const { return kv_head_ * t_.heads.group * t_.heads.head_dim; }

  void start(std::size_t row) {
    const Queries qs = queries(row);
    std::memset(qs.q, 0, qs.heads * stride_ * sizeof(float));
    std::memset(qs.sums, 0, qs.heads * stride_ * sizeof(float));
    for (std::size_t h = 0; h < qs.heads; ++h) {
      std::memcpy(qs.q + h * stride_,
                  t_.q.data + row * t_.q.stride + query_column() + h * qs.head_dim,
                  qs.head_dim * sizeof(float));
      qs.maximum[h] = -__builtin_inff();
      qs.total[h] = 0.0f;
    }
  }

  void push(Slots& slots, std::size_t slot) const {
    const std::size_t column = kv_head_ * t_.heads.head_dim;
    const std::size_t row = row_of(t_.pages, slot);
    slots.keys[slots.count] = t_.keys.data + W::row_bytes(row * t_.keys.stride + column);
    slots.values[slots.count] = t_.values.data + W::row_bytes(row * t_.values.stride + column);
    ++slots.count;
  }

  // The ranks behind the shared blocks: the rest of the prefix, then the row's ancestors.
  void attend_own(std::size_t row, std::size_t shared) const {
    const Queries qs = queries(row);
    Slots slots;
    for (std::size_t slot = shared; slot < t_.prefix; ++slot) push(slots, slot);
    if (t_.masks != nullptr) {
      for (std::size_t word = 0; word < kMaskWords; ++word) {
        for (std::uint64_t bits = t_.masks[row * kMaskWords + word]; bits != 0; bits &= bits - 1) {
          if (slots.count == kBlock) {
            attend_block<W>(qs, slots);
            slots.count = 0;
          }
          push(slots, t_.prefix + word * 64 + static_cast<std::size_t>(__builtin_ctzll(bits)));
        }
      }
    }
    if (slots.count > 0) attend_block<W>(qs, slots);
  }

  void finish(std::size_t row) const {
    const Queries qs = queries(row);
    for (std::size_t h = 0; h < qs.heads; ++h) {
      float* y = t_.y.data + row * t_.y.stride + query_column() + h * qs.head_dim;
      const float scale = 1.0f / qs.total[h];
      for (std::size_t d = 0; d < qs.head_dim; ++d) y[d] = qs.sums[h * stride_ + d] * scale;
    }
  }

  const AttendTile& t_;
  std::size_t kv_head_;
  std::size_t stride_;
  float* scratch_;
};

}  // namespace

void attend(const AttendTile& tile, std::size_t kv_head, float* scratch) {
  switch (tile.keys.type) {
    case CacheType::f32:
      return Tile<F32>(tile, kv_head, scratch).run();
    case CacheType::f16:
      return Tile<F16>(tile, kv_head, scratch).run();
    case CacheType::bf16:
      return Tile<BF16>(tile, kv_head, scratch).run();
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
