#include "kernels/cpu/attend.h"

#include "kernels/cpu/dot_tile.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/pages.h"

// Visible slots are processed by rank, in blocks of 64, with a running maximum and sum (online
// softmax). Memory positions have no effect, so a path through a tree gives the same bits as the
// same tokens in sequence. Whole blocks of the prefix have the same ranks for all rows and are
// shared by a tile's rows; later ranks are processed per row. Ranks before a row's window have no
// weight in their block and are not read; blocks of such ranks are skipped.
//
// If several queries read a block, its keys and values are first gathered as float32. Cache rows
// are a power of two apart and would evict each other from the first-level cache. Elements of other
// types are decoded only once. The next block is prefetched meanwhile.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

constexpr std::size_t kBlock = 64;

// From this many queries on, a block is gathered even if it could be read in place.
constexpr std::size_t kSharingMin = 4;

// A block's visible slots in rank order: one key-value head of each, zero-padded after head_dim to
// a whole number of lanes.
struct Slots {
  const float* keys[kBlock];
  const float* values[kBlock];
  std::size_t count = 0;
};

// Next slots to prefetch, in storage format.
struct Ahead {
  const std::byte* keys[kBlock];
  const std::byte* values[kBlock];
  std::size_t count = 0;
  std::size_t bytes;

  EDGEDRAFT_INLINE void ask(const std::byte* const* rows, std::size_t slot) const {
    if (slot >= count) return;
    for (std::size_t at = 0; at < bytes; at += 64) __builtin_prefetch(rows[slot] + at, 0, 3);
  }
};

// The query heads of one row that share a key-value head.
struct Queries {
  std::size_t from;  // first slot of the block that the row sees
  std::size_t heads;
  std::size_t head_dim;
  std::size_t stride;  // head_dim in whole lanes
  float* q;            // [heads, stride], zero-padded
  float* sums;         // [heads, stride], values weighted by e^(score - maximum)
  float* maximum;      // [heads]
  float* total;        // [heads], of the weights
  float* scores;       // [heads, kBlock]
  float scale;
};

// --- scores[h, j] = q[h] . key[j] ---

template <std::size_t R>
void score_heads(const Queries& qs, const Slots& slots, const Ahead* ahead, std::size_t head) {
  constexpr std::size_t C = tile_columns(R);
  DotTile<F32, R, C> tile;
  tile.first = 0;
  tile.count = qs.stride;
  for (std::size_t r = 0; r < R; ++r) tile.x[r] = qs.q + (head + r) * qs.stride;
  static_assert(kBlock % C == 0);
  for (std::size_t j = qs.from / C * C; j < slots.count; j += C) {
    // Slots outside repeat the nearest one; their scores are overwritten.
    for (std::size_t c = 0; c < C; ++c) {
      const std::size_t slot = j + c < qs.from ? qs.from : smaller(j + c, slots.count - 1);
      tile.w[c] = reinterpret_cast<const std::byte*>(slots.keys[slot]);
      if (ahead != nullptr) ahead->ask(ahead->keys, j + c);
    }
    typename DotTile<F32, R, C>::Sums sums;
    sums.clear();
    tile.add_to(sums);
    float totals[R * C];
    total<R, C>(sums, totals);
    for (std::size_t r = 0; r < R; ++r) {
      std::memcpy(qs.scores + (head + r) * kBlock + j, totals + r * C, C * sizeof(float));
    }
  }
}

// --- turns scores into weights; returns the factor for the earlier blocks' sums ---

float weigh(const Queries& qs, const Slots& slots, std::size_t head) {
  float* scores = qs.scores + head * kBlock;
  for (std::size_t j = 0; j < qs.from; ++j) scores[j] = -__builtin_inff();
  for (std::size_t j = slots.count; j < kBlock; ++j) scores[j] = -__builtin_inff();

  Lanes score[kBlock / kLanes];
  Lanes block_maximum = all(-__builtin_inff());
  for (std::size_t i = 0; i < kBlock / kLanes; ++i) {
    score[i] = load(scores + i * kLanes) * all(qs.scale);
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

// V registers of dimensions from `d`.
template <std::size_t R, std::size_t V>
void add_values(const Queries& qs, const Slots& slots, const Ahead* ahead, const float* shrink,
                std::size_t head, std::size_t d) {
  Part sums[R][V];
  for (std::size_t r = 0; r < R; ++r) {
    for (std::size_t v = 0; v < V; ++v) {
      sums[r][v] =
          load_part(qs.sums + (head + r) * qs.stride + d + v * kPartLanes) * all_part(shrink[r]);
    }
  }
  for (std::size_t j = qs.from; j < slots.count; ++j) {
    const float* from = slots.values[j] + d;
    if (ahead != nullptr) ahead->ask(ahead->values, j);
    Part value[V];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < V; ++v) value[v] = load_part(from + v * kPartLanes);
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

template <std::size_t R>
void attend_heads(const Queries& qs, const Slots& slots, const Ahead* ahead, std::size_t head) {
  constexpr std::size_t V = 4;
  score_heads<R>(qs, slots, ahead, head);
  float shrink[R];
  for (std::size_t r = 0; r < R; ++r) shrink[r] = weigh(qs, slots, head + r);
  std::size_t d = 0;
  for (; d + V * kPartLanes <= qs.stride; d += V * kPartLanes) {
    add_values<R, V>(qs, slots, d == 0 ? ahead : nullptr, shrink, head, d);
  }
  for (; d < qs.stride; d += kPartLanes) {
    add_values<R, 1>(qs, slots, d == 0 ? ahead : nullptr, shrink, head, d);
  }
}

template <std::size_t R>
void attend_some_heads(const Queries& qs, const Slots& slots, const Ahead* ahead, std::size_t head,
                       std::size_t count) {
  if (count == R) {
    attend_heads<R>(qs, slots, ahead, head);
  } else if constexpr (R > 1) {
    attend_some_heads<R - 1>(qs, slots, ahead, head, count);
  }
}

void attend_block(const Queries& qs, const Slots& slots, const Ahead* ahead) {
  for (std::size_t head = 0; head < qs.heads; head += kTileRowsMax) {
    attend_some_heads<kTileRowsMax>(qs, slots, head == 0 ? ahead : nullptr, head,
                                    smaller(kTileRowsMax, qs.heads - head));
  }
}

// --- a tile ---

class Tile {
 public:
  Tile(const AttendTile& t, std::size_t kv_head, float* scratch)
      : t_(t),
        kv_head_(kv_head),
        stride_(round_up(t.heads.head_dim, kLanes)),
        scratch_(scratch),
        together_(scratch + t.rows * t.heads.group * (2 * stride_ + 2 + kBlock)) {
    // Heads of int8 that are no whole blocks begin inside one.
    head_ = kv_head * t.heads.head_dim;
    if (t.keys.type == DType::i8) in_block_ = head_ % kInt8Block;
    head_bytes_ = cache_bytes(t.keys.type, head_ - in_block_);
    ahead_.bytes = cache_bytes(t.keys.type, in_block_ + t.heads.head_dim);
    switch (t.keys.type) {
      case DType::f32:
        decode_ = decode<F32>;
        break;
      case DType::f16:
        decode_ = decode<F16>;
        break;
      case DType::bf16:
        decode_ = decode<BF16>;
        break;
      case DType::i8:
        decode_ = decode<I8>;
        break;
      default:
        break;  // not a cache type
    }
  }

  void run() {
    std::size_t begin = t_.begin(0);
    for (std::size_t row = 0; row < t_.rows; ++row) {
      start(row);
      begin = smaller(begin, t_.begin(row));
    }
    const std::size_t shared = t_.prefix / kBlock * kBlock;
    const bool in_place = can_read_in_place(t_.rows * t_.heads.group);
    Slots slots;
    for (std::size_t first = begin / kBlock * kBlock; first < shared; first += kBlock) {
      slots.count = before(begin, first);
      while (slots.count < kBlock) push(slots, first + slots.count, in_place);
      look_ahead(first + kBlock);
      const Ahead* ahead = &ahead_;
      for (std::size_t row = 0; row < t_.rows; ++row) {
        Queries qs = queries(row);
        qs.from = before(t_.begin(row), first);
        if (qs.from >= kBlock) continue;
        attend_block(qs, slots, ahead);
        ahead = nullptr;
      }
    }
    for (std::size_t row = 0; row < t_.rows; ++row) {
      attend_own(row, shared);
      finish(row);
    }
  }

 private:
  // Ranks from `first` on that lie before a window.
  static std::size_t before(std::size_t begin, std::size_t first) {
    return begin > first ? begin - first : 0;
  }

  Queries queries(std::size_t row) const {
    const std::size_t heads = t_.heads.group;
    const std::size_t count = t_.rows * heads;
    const std::size_t first = row * heads;
    float* sums = scratch_ + count * stride_;
    float* maximum = sums + count * stride_;
    return {.from = 0,
            .heads = heads,
            .head_dim = t_.heads.head_dim,
            .stride = stride_,
            .q = scratch_ + first * stride_,
            .sums = sums + first * stride_,
            .maximum = maximum + first,
            .total = maximum + count + first,
            .scores = maximum + 2 * count,
            .scale = t_.scale};
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
      // A sink is a score whose value is zero.
      const bool has_sink = t_.sinks != nullptr;
      qs.maximum[h] = has_sink ? t_.sinks[kv_head_ * qs.heads + h] : -__builtin_inff();
      qs.total[h] = has_sink ? 1.0f : 0.0f;
    }
  }

  bool can_read_in_place(std::size_t queries) const {
    return t_.keys.type == DType::f32 && stride_ == t_.heads.head_dim && queries < kSharingMin;
  }

  const std::byte* head_of(const ConstCache& cache, std::size_t row) const {
    return cache.data + cache_bytes(cache.type, row * cache.stride) + head_bytes_;
  }

  void push(Slots& slots, std::size_t slot, bool in_place) const {
    const std::size_t row = row_of(t_.pages, slot);
    const std::size_t at = slots.count++;
    const std::byte* key = head_of(t_.keys, row);
    const std::byte* value = head_of(t_.values, row);
    if (in_place) {
      slots.keys[at] = reinterpret_cast<const float*>(key);
      slots.values[at] = reinterpret_cast<const float*>(value);
      return;
    }
    float* key_here = together_ + at * stride_;
    float* value_here = together_ + (kBlock + at) * stride_;
    bring(key, key_here);
    bring(value, value_here);
    slots.keys[at] = key_here;
    slots.values[at] = value_here;
  }

  void bring(const std::byte* head, float* to) const {
    const std::size_t count = t_.heads.head_dim;
    decode_(head, in_block_, count, to);
    std::memset(to + count, 0, (stride_ - count) * sizeof(float));
  }

  void look_ahead(std::size_t first) {
    ahead_.count = smaller(kBlock, t_.prefix - first);
    for (std::size_t j = 0; j < ahead_.count; ++j) {
      const std::size_t row = row_of(t_.pages, first + j);
      ahead_.keys[j] = head_of(t_.keys, row);
      ahead_.values[j] = head_of(t_.values, row);
    }
  }

  // Ranks after the shared blocks: the rest of the prefix, then the row's ancestors.
  void attend_own(std::size_t row, std::size_t shared) const {
    Queries qs = queries(row);
    const bool in_place = can_read_in_place(qs.heads);
    std::size_t unseen = before(t_.begin(row), shared);
    Slots slots;
    const auto attend_slots = [&] {
      if (qs.from < slots.count) attend_block(qs, slots, nullptr);
      slots.count = 0;
      qs.from = 0;
    };
    const auto add = [&](std::size_t slot) {
      if (slots.count == kBlock) attend_slots();
      if (unseen > 0) {
        --unseen;
        qs.from = ++slots.count;
      } else {
        push(slots, slot, in_place);
      }
    };
    for (std::size_t slot = shared; slot < t_.prefix; ++slot) add(slot);
    if (t_.masks != nullptr) {
      for (std::size_t word = 0; word < kMaskWords; ++word) {
        for (std::uint64_t bits = t_.masks[row * kMaskWords + word]; bits != 0; bits &= bits - 1) {
          add(t_.prefix + word * 64 + static_cast<std::size_t>(__builtin_ctzll(bits)));
        }
      }
    }
    attend_slots();
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
  std::size_t head_;          // first column of the head
  std::size_t in_block_ = 0;  // before it in its block
  std::size_t head_bytes_;    // before that block
  std::size_t stride_;
  float* scratch_;
  float* together_;  // gathered keys of a block, then values, [2 * kBlock, stride]
  void (*decode_)(const std::byte* row, std::size_t first, std::size_t count, float* to);
  Ahead ahead_;
};

}  // namespace

void attend(const AttendTile& tile, std::size_t kv_head, float* scratch) {
  Tile(tile, kv_head, scratch).run();
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
