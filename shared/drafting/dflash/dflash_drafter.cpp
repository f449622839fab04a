#include "shared/drafting/dflash/dflash_drafter.h"

#include <algorithm>
#include <numeric>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

std::vector<AncestorMask> block_masks(std::uint32_t rows, bool causal) {
  std::vector<AncestorMask> masks = causal_masks(rows);
  if (!causal) std::ranges::fill(masks, AncestorMask(masks.back()));
  return masks;
}

}  // namespace

DflashWeights::DflashWeights(Backend& backend, const DflashModel& model,
                             std::uint32_t positions_max)
    : backend_(backend),
      config_(model.config),
      slots_(positions_max + config_.block_size),
      store_(backend),
      cos_sin_(make_rope_table(backend, config_.decoder.rope, config_.decoder.layer.heads.head_dim,
                               slots_)),
      embedding_(store_.add(model.tensors.token_embd)),
      head_(store_.add_matrix(model.tensors.output.value_or(model.tensors.token_embd))),
      output_norm_(store_.add_vector(model.tensors.output_norm)),
      scratch_(backend, config_.decoder, kMaskRowsMax),
      x_(backend, kMaskRowsMax, dim()),
      logits_(backend, config_.block_size - 1, head_.rows),
      masks_(block_masks(config_.block_size, config_.causal)),
      window_masks_(block_masks(config_.block_size, config_.causal_windows)) {
  for (std::uint32_t i = 0; i < config_.decoder.layer_count; ++i) {
    layers_.push_back({.plan = config_.decoder.plan(i),
                       .weights = store_.add_layer(model.tensors.layers[i]),
                       .rope_style = config_.decoder.rope.style,
                       .cos_sin = cos_sin_.all()});
  }
}

KvCache::Size DflashWeights::cache_size() const {
  return {.kv_cols = config_.decoder.kv_cols(),
          .capacity = slots_,
          .type = backend_.drafter_cache_type()};
}

void DflashWeights::store_context(const KvCache& cache, std::uint32_t first,
                                  std::span<const float> rows) {
  const auto count = static_cast<std::uint32_t>(rows.size() / dim());
  EDGEDRAFT_CHECK(count > 0 && count <= kMaskRowsMax && count <= slots_ - first);
  const Matrix x = x_.rows(count);
  backend_.write(x, rows);
  std::vector<std::uint32_t> positions(count);
  std::iota(positions.begin(), positions.end(), first);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Layer layer = layers_[i];
    layer.weights.attn_norm = {};  // fused states are normed already
    store_keys(
        backend_, layer, scratch_, x,
        {.rows = count, .keys = cache.keys()[i], .values = cache.values()[i], .first = first},
        positions);
  }
}

Matrix DflashWeights::logits(const KvCache& cache, const Block& block) {
  const std::uint32_t rows = config_.block_size;
  const auto known = static_cast<std::uint32_t>(block.tokens.size());
  EDGEDRAFT_CHECK(known > 0 && known < rows && block.context_first <= block.first);
  std::vector<std::uint32_t> tokens(block.tokens.begin(), block.tokens.end());
  tokens.resize(rows, config_.mask_token);
  const Matrix x = x_.rows(rows);
  backend_.embed({.table = embedding_, .tokens = tokens, .y = x});
  const float embedding_scale = config_.decoder.embedding_scale;
  if (embedding_scale != 1.0f) backend_.scale({.x = x, .factor = embedding_scale});

  // Caches and angles from the context's first position on: windows count the slots that are seen.
  const std::uint32_t begin = block.context_first;
  const std::uint32_t prefix = block.first - begin;
  std::vector<std::uint32_t> positions(rows);
  std::iota(positions.begin(), positions.end(), prefix);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Layer layer = layers_[i];
    layer.cos_sin = layer.cos_sin.row_range(begin, slots_ - begin);
    const RowBatch batch{.positions = positions,
                         .prefix = prefix,
                         .first_slot = prefix,
                         .masks = layer.plan.window > 0 ? window_masks_ : masks_};
    self_attention(backend_, layer, scratch_, x, batch, cache.keys()[i].run(begin, slots_ - begin),
                   cache.values()[i].run(begin, slots_ - begin));
    feed_forward(backend_, layer, scratch_, x);
  }
  const Matrix masks = x.row_range(known, rows - known);
  backend_.rms_norm({.x = masks,
                     .weight = output_norm_,
                     .y = masks,
                     .epsilon = config_.decoder.layer.rms_epsilon});
  const Matrix logits = logits_.rows(masks.rows);
  backend_.matmul({.x = masks, .weight = head_, .bias = {}, .y = logits});
  if (config_.logit_scale != 1.0f) backend_.scale({.x = logits, .factor = config_.logit_scale});
  const float cap = config_.decoder.logit_cap;
  if (cap != 0.0f) backend_.soft_cap({.x = logits, .cap = cap});
  return logits;
}

DflashDrafter::DflashDrafter(std::shared_ptr<DflashWeights> weights, std::uint32_t positions_max)
    : LevelDrafter(positions_max),
      weights_(std::move(weights)),
      cache_(weights_->make_cache()),
      is_stored_(positions_max, false) {}

void DflashDrafter::append(std::span<const std::uint32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  LevelDrafter::append(tokens);
}

void DflashDrafter::truncate(std::uint32_t count) {
  LevelDrafter::truncate(count);
  tokens_.resize(count);
}

void DflashDrafter::add_activations(std::uint32_t first, std::span<const float> rows) {
  const std::size_t cols = activation_cols();
  EDGEDRAFT_CHECK(rows.size() % cols == 0);
  // The server's context may be longer; positions beyond the drafter's are not drafted.
  const std::size_t room = is_stored_.size() - std::min<std::size_t>(first, is_stored_.size());
  const std::size_t count = std::min(rows.size() / cols, room);
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = rows.subspan(i * cols, cols);
    waiting_.insert_or_assign(first + static_cast<std::uint32_t>(i),
                              std::vector<float>(row.begin(), row.end()));
  }
  if (count > 0) forget_guesses();
}

void DflashDrafter::drop_activations(std::uint32_t first) {
  waiting_.erase(waiting_.lower_bound(first), waiting_.end());
  for (std::size_t i = first; i < is_stored_.size(); ++i) is_stored_[i] = false;
  forget_guesses();
}

std::optional<std::uint32_t> DflashDrafter::newest_before(std::uint32_t end) const {
  for (auto i = std::min(end, static_cast<std::uint32_t>(is_stored_.size())); i > 0; --i) {
    if (is_stored_[i - 1]) return i - 1;
  }
  return {};
}

bool DflashDrafter::has_waiting() const {
  return !waiting_.empty() && waiting_.begin()->first + 1 < token_count();
}

void DflashDrafter::store_waiting() {
  const std::uint32_t first = waiting_.begin()->first;
  std::vector<float> rows;
  std::uint32_t count = 0;
  auto next = waiting_.begin();
  const auto end = waiting_.lower_bound(token_count() - 1);
  for (; next != end && next->first == first + count && count < kMaskRowsMax; ++next, ++count) {
    rows.insert(rows.end(), next->second.begin(), next->second.end());
    is_stored_[next->first] = true;
  }
  waiting_.erase(waiting_.begin(), next);
  weights_->store_context(cache_, first, rows);
}

bool DflashDrafter::grow(TreeGrowth& growth, const GrowthBudget& budget) {
  while (has_waiting()) {
    if (budget.rows == 0) return false;
    store_waiting();
    if (budget.rows == GrowthBudget{}.rows) continue;
    // Other conversations run next, so finish this part now instead of making them wait for it.
    weights_->backend().wait();
    if (has_waiting()) return false;
  }
  return LevelDrafter::grow(growth, budget);
}

Matrix DflashDrafter::guess(std::uint32_t position, std::uint32_t first, std::uint32_t count) {
  const std::uint32_t end = position + 1;
  const std::uint32_t known = first + 1;
  EDGEDRAFT_CHECK(known + count == weights_->config().block_size);
  std::uint32_t begin = position;
  while (begin > 0 && is_stored_[begin - 1]) --begin;
  return weights_->logits(
      cache_,
      {.context_first = begin, .first = end, .tokens = std::span(tokens_).subspan(end, known)});
}

}  // namespace edgedraft
