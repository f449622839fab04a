#include "shared/drafting/moa/moa_network.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

KvCache::Size cache_size(const LayerShape& shape, std::uint32_t layers, std::uint32_t positions_max,
                         DType type) {
  return {.kv_cols = std::vector(layers, shape.heads.kv_cols()),
          .capacity = positions_max + kMaskRowsMax,
          .type = type};
}

// Caches for self-attention, for the memory, and for the target's layers.
std::array<KvCache::Size, 3> cache_sizes(const Backend& backend, const MoaConfig& config,
                                         std::uint32_t positions_max) {
  const DType type = backend.drafter_cache_type();
  return {cache_size(config.self_attention, 1, positions_max, type),
          cache_size(config.cross_attention, 1, positions_max, type),
          cache_size(config.target_layer, std::max(config.tli, 1u), positions_max, type)};
}

}  // namespace

MoaWeights::MoaWeights(Backend& backend, const MoaConfig& config, const MoaTensors& tensors,
                       std::uint32_t positions_max)
    : backend_(backend),
      config_(config),
      layout_(moa_row_layout(config)),
      positions_max_(positions_max),
      store_(backend),
      sa_cos_sin_(make_rope_table(backend, config.sa_rope, config.self_attention.heads.head_dim,
                                  positions_max + kMaskRowsMax)),
      ca_cos_sin_(make_rope_table(backend, config.ca_rope, config.cross_attention.heads.head_dim,
                                  positions_max + kMaskRowsMax)),
      target_cos_sin_(make_rope_table(backend, config.target_rope,
                                      config.target_layer.heads.head_dim,
                                      positions_max + kMaskRowsMax)),
      embedding_(store_.add(tensors.token_embd)),
      head_(store_.add_matrix(tensors.output.value_or(tensors.token_embd))),
      output_norm_(store_.add_vector(tensors.output_norm)),
      sa_{.plan = {.shape = config.self_attention},
          .weights = store_.add_layer(tensors.self_attention),
          .rope_style = config.sa_rope.style,
          .cos_sin = sa_cos_sin_.all()},
      ca_{.plan = {.shape = config.cross_attention},
          .weights = store_.add_layer(tensors.cross_attention),
          .rope_style = config.ca_rope.style,
          .cos_sin = ca_cos_sin_.all()},
      projection_(backend, config, tensors, kMaskRowsMax),
      sa_scratch_(backend, config.self_attention, kMaskRowsMax),
      ca_scratch_(backend, config.cross_attention, kMaskRowsMax),
      target_scratch_(backend, config.target_layer, kMaskRowsMax),
      causal_masks_(causal_masks(kMaskRowsMax)),
      arrived_(backend, kMaskRowsMax, layout_.cols()),
      x_(backend, kMaskRowsMax, config.self_attention.dim) {
  EDGEDRAFT_CHECK(tensors.tli.size() == config.tli);
  for (const LayerTensors& layer : tensors.tli) {
    target_layers_.push_back({.plan = {.shape = config.target_layer},
                              .weights = store_.add_layer(layer),
                              .rope_style = config.target_rope.style,
                              .cos_sin = target_cos_sin_.all()});
  }
}

std::uint64_t MoaWeights::sequence_bytes() const {
  std::uint64_t bytes = 0;
  for (const KvCache::Size& size : cache_sizes(backend_, config_, positions_max_))
    bytes += size.bytes();
  return bytes;
}

MoaNetwork::MoaNetwork(Backend& backend, const MoaConfig& config, const MoaTensors& tensors,
                       std::uint32_t positions_max)
    : MoaNetwork(std::make_shared<MoaWeights>(backend, config, tensors, positions_max)) {}

MoaNetwork::MoaNetwork(std::shared_ptr<MoaWeights> weights)
    : m_(std::move(weights)),
      backend_(m_->backend_),
      sa_cache_(backend_, cache_sizes(backend_, m_->config_, m_->positions_max_)[0]),
      ca_memory_(backend_, cache_sizes(backend_, m_->config_, m_->positions_max_)[1]),
      tli_cache_(backend_, cache_sizes(backend_, m_->config_, m_->positions_max_)[2]) {}

void MoaNetwork::extend_memory(std::uint32_t first_position, std::span<const float> rows) {
  const std::size_t cols = m_->layout_.cols();
  EDGEDRAFT_CHECK(rows.size() % cols == 0);
  draft_rows_ = 0;
  // The server's context may be longer; positions beyond the drafter's are not drafted.
  const std::size_t room = m_->positions_max_ - std::min(first_position, m_->positions_max_);
  const std::size_t count = std::min(rows.size() / cols, room);
  if (count == 0) return;
  for (std::size_t done = 0; done < count; done += kMaskRowsMax) {
    const std::size_t chunk = std::min<std::size_t>(kMaskRowsMax, count - done);
    append_memory(first_position + static_cast<std::uint32_t>(done),
                  rows.subspan(done * cols, chunk * cols));
  }
  forget_own_states();
}

void MoaNetwork::append_memory(std::uint32_t first_position, std::span<const float> rows) {
  const auto count = static_cast<std::uint32_t>(rows.size() / m_->layout_.cols());
  const std::uint32_t slot = memory_count();
  EDGEDRAFT_CHECK(first_position + count <= m_->positions_max_ &&
                  slot + count <= m_->positions_max_);
  const Matrix arrived = m_->arrived_.rows(count);
  backend_.write(arrived, rows);

  const std::uint32_t ca_cols = m_->config_.cross_attention.heads.kv_cols();
  const Matrix memory = arrived.column_range(0, m_->layout_.memory_cols);
  Matrix keys = m_->ca_scratch_.k.rows(count);
  Matrix values = m_->ca_scratch_.v.rows(count);
  if (m_->layout_.cut == CutPoint::lsa_mean) {
    m_->projection_.project(memory, keys, values);
  } else {
    keys = memory.column_range(0, ca_cols);
    values = memory.column_range(ca_cols, ca_cols);
  }
  std::vector<std::uint32_t> positions(count);
  std::iota(positions.begin(), positions.end(), first_position);
  backend_.rope({.x = keys,
                 .positions = positions,
                 .cos_sin = m_->ca_.cos_sin,
                 .head_dim = m_->ca_.plan.shape.heads.head_dim,
                 .rotated = m_->ca_.plan.shape.heads.head_dim,
                 .style = m_->ca_.rope_style});
  backend_.store({.x = keys, .cache = ca_memory_.keys()[0], .first = slot});
  backend_.store({.x = values, .cache = ca_memory_.values()[0], .first = slot});

  const std::uint32_t target_cols = m_->config_.target_layer.heads.kv_cols();
  for (std::uint32_t layer = 0; layer < m_->config_.tli; ++layer) {
    const std::uint32_t col = m_->layout_.tli_first_col(layer);
    backend_.store({.x = arrived.column_range(col, target_cols),
                    .cache = tli_cache_.keys()[layer],
                    .first = slot});
    backend_.store({.x = arrived.column_range(col + target_cols, target_cols),
                    .cache = tli_cache_.values()[layer],
                    .first = slot});
  }
  memory_positions_.insert(memory_positions_.end(), positions.begin(), positions.end());
  ca_memory_.set_length(memory_count());
  tli_cache_.set_length(memory_count());
  memory_end_ = std::max(memory_end_, first_position + count);
}

void MoaNetwork::truncate_memory(std::uint32_t position) {
  if (position >= memory_end_) return;
  draft_rows_ = 0;
  std::vector<std::uint32_t> slots;
  std::vector<std::uint32_t> positions;
  for (std::uint32_t slot = 0; slot < memory_count(); ++slot) {
    if (memory_positions_[slot] >= position) continue;
    slots.push_back(slot);
    positions.push_back(memory_positions_[slot]);
  }
  memory_positions_ = std::move(positions);
  memory_end_ = 0;
  for (const std::uint32_t p : memory_positions_) memory_end_ = std::max(memory_end_, p + 1);
  for (KvCache* cache : {&ca_memory_, &tli_cache_}) {
    cache->set_length(0);
    cache->keep(slots);
  }
  forget_own_states();
}

// Tokens after the memory went through target layers that saw the old memory, so they must be
// committed again.
void MoaNetwork::forget_own_states() {
  own_rows_ = 0;
  if (m_->config_.tli > 0) sa_cache_.set_length(std::min(sa_cache_.length(), memory_end_));
}

void MoaNetwork::commit(std::span<const std::uint32_t> tokens) {
  EDGEDRAFT_CHECK(!tokens.empty());
  draft_rows_ = 0;
  for (std::size_t done = 0; done < tokens.size(); done += kMaskRowsMax) {
    if (done > 0) backend_.wait();  // a device cannot queue a whole text at once
    commit_chunk(tokens.subspan(done, std::min<std::size_t>(kMaskRowsMax, tokens.size() - done)));
  }
}

void MoaNetwork::commit_chunk(std::span<const std::uint32_t> tokens) {
  const auto count = static_cast<std::uint32_t>(tokens.size());
  const std::uint32_t first = sa_cache_.length();
  std::vector<std::uint32_t> positions(count);
  std::iota(positions.begin(), positions.end(), first);
  run_self_attention(tokens, {.positions = positions,
                              .prefix = first,
                              .first_slot = first,
                              .masks = std::span(m_->causal_masks_).first(count)});
  sa_cache_.set_length(first + count);

  // The rest of the network runs on the last token. With TLI layers it runs on every token beyond
  // the memory, since later tokens attend to them there.
  std::uint32_t skipped = count - 1;
  if (m_->config_.tli > 0) skipped = std::min(skipped, std::max(memory_end(), first) - first);
  const std::uint32_t rows = count - skipped;
  const Matrix x = m_->x_.all().row_range(skipped, rows);
  const auto row_positions = std::span(positions).subspan(skipped);
  cross_attend(x, row_positions);
  if (m_->config_.tli > 0) {
    const std::uint32_t prefix = memory_count() + own_rows_;
    run_target_layers(x, {.positions = row_positions,
                          .prefix = prefix,
                          .first_slot = prefix,
                          .masks = std::span(m_->causal_masks_).first(rows)});
    // A last token covered by the memory runs only for its logits and keeps no row.
    const bool last_covered = first + count <= memory_end();
    own_rows_ += last_covered ? 0 : rows;
  }
  leave_logits(x.row_range(rows - 1, 1));
}

void MoaNetwork::truncate(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= sa_cache_.length());
  draft_rows_ = 0;
  const std::uint32_t dropped = sa_cache_.length() - count;
  own_rows_ -= std::min(own_rows_, dropped);
  sa_cache_.set_length(count);
}

void MoaNetwork::expand(std::span<const GrowthNode> nodes, Leave leave) {
  const auto count = static_cast<std::uint32_t>(nodes.size());
  const std::uint32_t committed = sa_cache_.length();
  const DraftRows rows = make_draft_rows(nodes, committed, draft_rows_);
  run_self_attention(rows.tokens, {.positions = rows.positions,
                                   .prefix = committed,
                                   .first_slot = committed + draft_rows_,
                                   .masks = rows.masks});
  const Matrix x = m_->x_.rows(count);
  cross_attend(x, rows.positions);
  if (m_->config_.tli > 0) {
    const std::uint32_t prefix = memory_count() + own_rows_;
    run_target_layers(x, {.positions = rows.positions,
                          .prefix = prefix,
                          .first_slot = prefix + draft_rows_,
                          .masks = rows.masks});
  }
  draft_rows_ += count;
  if (leave == Leave::logits) leave_logits(x);
}

void MoaNetwork::run_self_attention(std::span<const std::uint32_t> tokens, const RowBatch& batch) {
  const Matrix x = m_->x_.rows(batch.count());
  backend_.embed({.table = m_->embedding_, .tokens = tokens, .y = x});
  self_attention(backend_, m_->sa_, m_->sa_scratch_, x, batch, sa_cache_.keys()[0],
                 sa_cache_.values()[0]);
  feed_forward(backend_, m_->sa_, m_->sa_scratch_, x);
}

void MoaNetwork::cross_attend(const Matrix& x, std::span<const std::uint32_t> positions) {
  if (memory_count() > 0) {
    const LayerWeights& w = m_->ca_.weights;
    const Matrix normed = m_->ca_scratch_.normed.rows(x.rows);
    const Matrix q = m_->ca_scratch_.q.rows(x.rows);
    const Matrix attended = m_->ca_scratch_.attended.rows(x.rows);
    backend_.rms_norm(
        {.x = x, .weight = w.attn_norm, .y = normed, .epsilon = m_->ca_.plan.shape.rms_epsilon});
    backend_.matmul({.x = normed, .weight = w.attn_q, .bias = w.attn_q_bias, .y = q});
    backend_.rope({.x = q,
                   .positions = positions,
                   .cos_sin = m_->ca_.cos_sin,
                   .head_dim = m_->ca_.plan.shape.heads.head_dim,
                   .rotated = m_->ca_.plan.shape.heads.head_dim,
                   .style = m_->ca_.rope_style});
    backend_.attention({.q = q,
                        .keys = ca_memory_.keys()[0],
                        .values = ca_memory_.values()[0],
                        .prefix = memory_count(),
                        .masks = {},
                        .heads = m_->ca_.plan.shape.heads,
                        .y = attended,
                        .scale = m_->ca_.plan.shape.heads.score_scale()});
    backend_.matmul(
        {.x = attended, .weight = w.attn_output, .bias = {}, .y = x, .into = Into::accumulate});
  }
  feed_forward(backend_, m_->ca_, m_->ca_scratch_, x);
}

void MoaNetwork::run_target_layers(const Matrix& x, const RowBatch& batch) {
  for (std::uint32_t i = 0; i < m_->config_.tli; ++i) {
    self_attention(backend_, m_->target_layers_[i], m_->target_scratch_, x, batch,
                   tli_cache_.keys()[i], tli_cache_.values()[i]);
    feed_forward(backend_, m_->target_layers_[i], m_->target_scratch_, x);
  }
}

void MoaNetwork::leave_logits(const Matrix& x) {
  if (!m_->logits_memory_ || m_->logits_memory_->all().rows < x.rows) {
    m_->logits_memory_.reset();
    m_->logits_memory_ = std::make_unique<OwnedMatrix>(backend_, x.rows, m_->head_.rows);
  }
  // Without TLI layers the network predicts the post-norm feature, so the head needs no norm.
  Matrix feature = x;
  if (m_->config_.tli > 0) {
    feature = m_->target_scratch_.normed.rows(x.rows);
    backend_.rms_norm({.x = x,
                       .weight = m_->output_norm_,
                       .y = feature,
                       .epsilon = m_->config_.output_norm_epsilon});
  }
  logits_ = m_->logits_memory_->rows(x.rows);
  backend_.matmul({.x = feature, .weight = m_->head_, .bias = {}, .y = logits_});
}

}  // namespace edgedraft
