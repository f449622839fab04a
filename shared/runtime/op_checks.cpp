#include "shared/runtime/op_checks.h"

#include <algorithm>
#include <bit>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kTopKMax = 256;

template <class M>
bool same_shape(const M& a, const M& b) {
  return a.rows == b.rows && a.cols == b.cols;
}

void check_heads(const HeadShape& heads) {
  EDGEDRAFT_CHECK(heads.kv_heads > 0);
  EDGEDRAFT_CHECK(heads.query_heads > 0);
  EDGEDRAFT_CHECK(heads.query_heads % heads.kv_heads == 0);
  EDGEDRAFT_CHECK(heads.head_dim > 0);
  EDGEDRAFT_CHECK(heads.head_dim <= kHeadDimMax);
  EDGEDRAFT_CHECK(heads.head_dim % 2 == 0);
}

void check_cache(const CacheView& cache) {
  EDGEDRAFT_CHECK(is_cache_type(cache.memory.type));
  if (!cache.paged()) return;
  EDGEDRAFT_CHECK(std::has_single_bit(cache.page_slots));
  const std::uint32_t page_count = cache.memory.rows / cache.page_slots;
  for (const std::uint32_t page : cache.pages) EDGEDRAFT_CHECK(page < page_count);
}

// Checks the keys and values of one layer.
void check_caches(const CacheView& keys, const CacheView& values) {
  check_cache(keys);
  EDGEDRAFT_CHECK(same_shape(keys.memory, values.memory));
  EDGEDRAFT_CHECK(keys.memory.type == values.memory.type);
  EDGEDRAFT_CHECK(keys.pages.data() == values.pages.data());
  EDGEDRAFT_CHECK(keys.pages.size() == values.pages.size());
  EDGEDRAFT_CHECK(keys.page_slots == values.page_slots);
}

// Slots after the prefix that a mask shows.
std::uint32_t shown(const AncestorMask& mask) {
  int count = 0;
  for (const std::uint64_t bits : mask.bits) count += std::popcount(bits);
  return static_cast<std::uint32_t>(count);
}

// Slots after the prefix up to the last one in the mask.
std::uint32_t reach(const AncestorMask& mask) {
  for (std::size_t word = mask.bits.size(); word-- > 0;) {
    if (mask.bits[word] != 0) {
      return static_cast<std::uint32_t>(word * 64 +
                                        static_cast<std::size_t>(std::bit_width(mask.bits[word])));
    }
  }
  return 0;
}

// `rows`: of the operation; states and kept rows have the shapes given.
void check_recurrent(std::span<const RecurrentRows> sequences, std::uint32_t rows,
                     std::uint32_t state_rows, std::uint32_t state_cols, std::uint32_t kept_cols) {
  std::uint64_t sum = 0;
  for (const RecurrentRows& s : sequences) {
    EDGEDRAFT_CHECK(s.state.rows == state_rows && s.state.cols == state_cols);
    EDGEDRAFT_CHECK(s.kept.cols == kept_cols);
    EDGEDRAFT_CHECK(s.rows <= kMaskRowsMax && s.settled <= s.rows);
    const std::uint64_t end = std::uint64_t{s.first} + s.drafted();
    EDGEDRAFT_CHECK(end <= s.kept.rows && end <= kMaskRowsMax);
    EDGEDRAFT_CHECK(s.first == 0 || (s.pending.empty() && s.settled == 0));
    EDGEDRAFT_CHECK(s.pending.size() <= kMaskRowsMax);
    for (const std::uint32_t row : s.pending) EDGEDRAFT_CHECK(row < s.kept.rows);
    EDGEDRAFT_CHECK(s.parents.size() == end);
    for (std::uint32_t row = 0; row < end; ++row) {
      EDGEDRAFT_CHECK(s.parents[row] < row || s.parents[row] == kNoParent);
    }
    sum += s.rows;
  }
  EDGEDRAFT_CHECK(sum == rows);
}

bool same_start(const Matrix& a, const Matrix& b) {
  return a.buffer == b.buffer && a.offset == b.offset;
}

}  // namespace

void check_op(const EmbedOp& op) {
  EDGEDRAFT_CHECK(op.y.rows == op.tokens.size());
  EDGEDRAFT_CHECK(op.y.cols == op.table.cols);
  for (const std::uint32_t token : op.tokens) EDGEDRAFT_CHECK(token < op.table.rows);
}

void check_op(const RmsNormOp& op) {
  EDGEDRAFT_CHECK(same_shape(op.x, op.y));
  EDGEDRAFT_CHECK(op.weight.rows == 1);
  EDGEDRAFT_CHECK(op.weight.cols > 0 && op.x.cols % op.weight.cols == 0);
}

void check_op(const MatmulOp& op) {
  EDGEDRAFT_CHECK(op.weight.experts == 1);
  EDGEDRAFT_CHECK(op.x.cols == op.weight.cols);
  EDGEDRAFT_CHECK(op.y.cols == op.weight.rows);
  EDGEDRAFT_CHECK(op.x.rows == op.y.rows);
  if (op.bias) EDGEDRAFT_CHECK(op.bias.rows == 1 && op.bias.cols == op.weight.rows);
}

void check_op(const RopeOp& op) {
  EDGEDRAFT_CHECK(op.x.rows == op.positions.size());
  EDGEDRAFT_CHECK(op.head_dim > 0 && op.head_dim % 2 == 0);
  EDGEDRAFT_CHECK(op.x.cols % op.head_dim == 0);
  EDGEDRAFT_CHECK(op.rotated % 2 == 0 && op.rotated <= op.head_dim);
  if (op.rotated == 0) return;
  EDGEDRAFT_CHECK(op.cos_sin.cols == op.rotated);
  for (const std::uint32_t position : op.positions) EDGEDRAFT_CHECK(position < op.cos_sin.rows);
}

void check_op(const StoreOp& op) {
  check_cache(op.cache);
  EDGEDRAFT_CHECK(op.x.cols == op.cache.cols());
  EDGEDRAFT_CHECK(std::uint64_t{op.first} + op.x.rows <= op.cache.slots());
}

void check_op(const RopeStoreOp& op) {
  check_op(RopeOp{.x = op.q,
                  .positions = op.positions,
                  .cos_sin = op.cos_sin,
                  .head_dim = op.head_dim,
                  .rotated = op.rotated,
                  .style = op.style});
  EDGEDRAFT_CHECK(same_shape(op.k, op.v));
  EDGEDRAFT_CHECK(op.k.rows == op.q.rows);
  EDGEDRAFT_CHECK(op.k.cols % op.head_dim == 0);
  std::uint64_t rows = 0;
  for (const RopeStoreOp::Sequence& s : op.sequences) {
    check_caches(s.keys, s.values);
    EDGEDRAFT_CHECK(s.keys.cols() == op.k.cols);
    EDGEDRAFT_CHECK(std::uint64_t{s.first} + s.rows <= s.keys.slots());
    rows += s.rows;
  }
  EDGEDRAFT_CHECK(rows == op.k.rows);
}

void check_op(const AttentionOp& op) {
  check_heads(op.heads);
  EDGEDRAFT_CHECK(same_shape(op.q, op.y));
  EDGEDRAFT_CHECK(op.q.cols == op.heads.query_cols());
  EDGEDRAFT_CHECK(op.keys.cols() == op.heads.kv_cols());
  check_caches(op.keys, op.values);
  EDGEDRAFT_CHECK(op.prefix <= op.keys.slots());
  if (op.sinks) EDGEDRAFT_CHECK(op.sinks.rows == 1 && op.sinks.cols == op.heads.query_heads);
  if (op.window != 0) EDGEDRAFT_CHECK(op.positions.size() == op.q.rows);
  if (!op.masks.empty()) EDGEDRAFT_CHECK(op.masks.size() == op.q.rows);
  for (std::uint32_t r = 0; r < op.q.rows; ++r) {
    const AncestorMask mask = op.masks.empty() ? AncestorMask{} : op.masks[r];
    EDGEDRAFT_CHECK(reach(mask) <= op.keys.slots() - op.prefix);
    EDGEDRAFT_CHECK(std::uint64_t{op.prefix} + shown(mask) > op.window_begin(r));
  }
}

void check_op(const GroupAttentionOp& op) {
  check_heads(op.heads);
  EDGEDRAFT_CHECK(same_shape(op.q, op.y));
  EDGEDRAFT_CHECK(same_shape(op.k, op.v));
  EDGEDRAFT_CHECK(op.q.rows == op.k.rows);
  EDGEDRAFT_CHECK(op.q.cols == op.heads.query_cols());
  EDGEDRAFT_CHECK(op.k.cols == op.heads.kv_cols());
  EDGEDRAFT_CHECK(op.group_rows > 0);
  EDGEDRAFT_CHECK(op.q.rows % op.group_rows == 0);
}

void check_op(const GateOp& op) {
  EDGEDRAFT_CHECK(same_shape(op.up, op.y));
  EDGEDRAFT_CHECK(op.gate.rows == op.y.rows);
  EDGEDRAFT_CHECK(op.gate.cols == op.y.cols || op.gate.cols == 1);
}

void check_op(const CompactOp& op) {
  check_cache(op.cache);
  for (std::size_t i = 0; i < op.slots.size(); ++i) {
    EDGEDRAFT_CHECK(op.slots[i] >= op.first + i);
    EDGEDRAFT_CHECK(op.slots[i] < op.cache.slots());
    if (i > 0) EDGEDRAFT_CHECK(op.slots[i] > op.slots[i - 1]);
  }
}

void check_op(const GatherLayersOp& op) {
  check_heads(op.heads);
  EDGEDRAFT_CHECK(op.keys.size() == op.values.size());
  EDGEDRAFT_CHECK(op.y.rows == op.slots.size() * op.keys.size());
  EDGEDRAFT_CHECK(op.y.cols == 2 * op.heads.kv_cols());
  for (std::size_t layer = 0; layer < op.keys.size(); ++layer) {
    check_caches(op.keys[layer], op.values[layer]);
    EDGEDRAFT_CHECK(op.keys[layer].pages.data() == op.keys[0].pages.data());
    EDGEDRAFT_CHECK(op.keys[layer].memory.type == op.keys[0].memory.type);
    EDGEDRAFT_CHECK(op.keys[layer].cols() == op.heads.kv_cols());
    for (const std::uint32_t slot : op.slots) EDGEDRAFT_CHECK(slot < op.keys[layer].slots());
  }
}

void check_op(const GroupMeanOp& op) {
  EDGEDRAFT_CHECK(op.group_rows > 0);
  EDGEDRAFT_CHECK(op.x.rows == std::uint64_t{op.y.rows} * op.group_rows);
  EDGEDRAFT_CHECK(op.x.cols == op.y.cols);
}

void check_op(const TopKOp& op) {
  EDGEDRAFT_CHECK(op.k >= 1);
  EDGEDRAFT_CHECK(op.k <= std::min(op.logits.cols, kTopKMax));
  EDGEDRAFT_CHECK(op.tokens.size() == std::size_t{op.logits.rows} * op.k);
  EDGEDRAFT_CHECK(op.log_probs.size() == op.tokens.size());
}

void check_op(const ArgmaxOp& op) {
  EDGEDRAFT_CHECK(op.logits.cols > 0);
  EDGEDRAFT_CHECK(op.tokens.size() == op.logits.rows);
}

void check_op(const ScaleOp& op) {
  EDGEDRAFT_CHECK(op.x.stride >= op.x.cols);
}

void check_op(const SoftCapOp& op) {
  EDGEDRAFT_CHECK(op.cap > 0.0f);
}

void check_op(const ConvolutionOp& op) {
  const std::uint32_t taps = op.weight.cols;
  EDGEDRAFT_CHECK(same_shape(op.x, op.y) && !same_start(op.x, op.y));
  EDGEDRAFT_CHECK(op.weight.rows == op.x.cols);
  EDGEDRAFT_CHECK(taps > 1 && taps <= kTapsMax);
  EDGEDRAFT_CHECK(op.activation == Activation::silu || op.activation == Activation::identity);
  check_recurrent(op.sequences, op.x.rows, taps - 1, op.x.cols, op.x.cols);
}

void check_op(const DeltaRuleOp& op) {
  EDGEDRAFT_CHECK(op.dim > 0 && op.dim <= kDeltaDimMax);
  EDGEDRAFT_CHECK(op.key_heads > 0 && op.value_heads > 0);
  EDGEDRAFT_CHECK(op.value_heads % op.key_heads == 0);
  EDGEDRAFT_CHECK(op.qkv.cols == 2 * op.key_cols() + op.value_cols());
  EDGEDRAFT_CHECK(same_shape(op.alpha, op.beta));
  EDGEDRAFT_CHECK(op.alpha.cols == op.value_heads && op.alpha.rows == op.qkv.rows);
  EDGEDRAFT_CHECK(op.decay.rows == 1 && op.decay.cols == op.value_heads);
  EDGEDRAFT_CHECK(op.time_bias.rows == 1 && op.time_bias.cols == op.value_heads);
  EDGEDRAFT_CHECK(op.y.rows == op.qkv.rows && op.y.cols == op.value_cols());
  EDGEDRAFT_CHECK(!same_start(op.qkv, op.y));
  check_recurrent(op.sequences, op.qkv.rows, op.value_cols(), op.dim, op.kept_cols());
}

void check_op(const RouteOp& op) {
  EDGEDRAFT_CHECK(op.logits.cols <= kExpertsMax);
  EDGEDRAFT_CHECK(op.used >= 1 && op.used <= std::min(op.logits.cols, kExpertsUsedMax));
  EDGEDRAFT_CHECK(op.experts.rows == op.logits.rows);
  EDGEDRAFT_CHECK(op.experts.cols == op.used);
  EDGEDRAFT_CHECK(same_shape(op.experts, op.weights));
}

void check_op(const ExpertMatmulOp& op) {
  const std::uint32_t count = op.weight.experts;
  EDGEDRAFT_CHECK(count >= 2 && count <= kExpertsMax);
  EDGEDRAFT_CHECK(op.weight.rows == std::uint64_t{count} * op.y.cols);
  EDGEDRAFT_CHECK(op.x.cols == op.weight.cols);
  EDGEDRAFT_CHECK(op.experts.cols >= 1 && op.experts.cols <= kExpertsUsedMax);
  EDGEDRAFT_CHECK(op.y.rows == std::uint64_t{op.experts.rows} * op.experts.cols);
  EDGEDRAFT_CHECK(op.x.rows == op.experts.rows || op.x.rows == op.y.rows);
  if (op.bias) EDGEDRAFT_CHECK(op.bias.rows == count && op.bias.cols == op.y.cols);
}

void check_op(const MixOp& op) {
  EDGEDRAFT_CHECK(op.weights.cols >= 1 && op.weights.cols <= kExpertsUsedMax);
  EDGEDRAFT_CHECK(op.weights.rows == op.y.rows);
  EDGEDRAFT_CHECK(op.x.rows == std::uint64_t{op.y.rows} * op.weights.cols);
  EDGEDRAFT_CHECK(op.x.cols == op.y.cols);
}

}  // namespace edgedraft
