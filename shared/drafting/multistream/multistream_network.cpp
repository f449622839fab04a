#include "shared/drafting/multistream/multistream_network.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {

MultistreamWeights::MultistreamWeights(Backend& backend, const MultistreamConfig& config,
                                       const MultistreamTensors& tensors,
                                       std::uint32_t positions_max)
    : backend_(backend),
      config_(config),
      positions_max_(positions_max),
      row_cols_(config.layer.dim + config.layer_count * 2 * config.layer.heads.kv_cols()),
      store_(backend),
      cos_sin_(make_rope_table(backend, config.rope, config.layer.heads.head_dim,
                               positions_max + kMaskRowsMax)),
      output_norm_(store_.add_vector(tensors.output_norm)),
      head_(store_.add_matrix(tensors.output)),
      scratch_(backend, config.layer, config.stream_count),
      arrived_(backend, kMaskRowsMax, row_cols_),
      x_(backend, config.stream_count, config.layer.dim),
      logits_(backend, config.stream_count, config.head_rows()) {
  EDGEDRAFT_CHECK(tensors.embeddings.size() == config.stream_count &&
                  tensors.layers.size() == config.layer_count &&
                  tensors.adapters.size() == config.layer_count);
  for (const TensorView& embedding : tensors.embeddings) {
    dequantize_row(embedding.type, embedding.bytes,
                   embeddings_.emplace_back(std::vector<float>(config.layer.dim)));
  }
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    layers_.push_back({.plan = {.shape = config.layer},
                       .weights = store_.add_layer(tensors.layers[i]),
                       .rope_style = config.rope.style,
                       .cos_sin = cos_sin_.all()});
    adapters_.push_back({.down = store_.add_matrix(tensors.adapters[i].down),
                         .up = store_.add_matrix(tensors.adapters[i].up)});
  }
}

KvCache::Size MultistreamWeights::cache_size() const {
  return {.kv_cols = std::vector(config_.layer_count, config_.layer.heads.kv_cols()),
          .capacity = positions_max_ + kMaskRowsMax,
          .type = backend_.drafter_cache_type()};
}

MultistreamNetwork::MultistreamNetwork(std::shared_ptr<MultistreamWeights> weights)
    : m_(std::move(weights)),
      backend_(m_->backend_),
      memory_(backend_, m_->cache_size()),
      // One more than there are streams: the newest may belong to the last token.
      states_(m_->config_.stream_count + 1) {}

void MultistreamNetwork::extend_memory(std::uint32_t first_position, std::span<const float> rows) {
  const std::size_t cols = m_->row_cols_;
  EDGEDRAFT_CHECK(rows.size() % cols == 0);
  // The server's context may be longer; positions beyond the drafter's are not drafted.
  const std::size_t room = m_->positions_max_ - std::min(first_position, m_->positions_max_);
  const std::size_t count = std::min(rows.size() / cols, room);
  for (std::size_t done = 0; done < count; done += kMaskRowsMax) {
    const std::size_t chunk = std::min<std::size_t>(kMaskRowsMax, count - done);
    append_memory(first_position + static_cast<std::uint32_t>(done),
                  rows.subspan(done * cols, chunk * cols));
  }
  states_.add(first_position, rows.first(count * cols), cols, 0, m_->config_.layer.dim);
}

void MultistreamNetwork::append_memory(std::uint32_t first_position, std::span<const float> rows) {
  const auto count = static_cast<std::uint32_t>(rows.size() / m_->row_cols_);
  const std::uint32_t slot = memory_count();
  EDGEDRAFT_CHECK(slot + count <= m_->positions_max_);
  const Matrix arrived = m_->arrived_.rows(count);
  backend_.write(arrived, rows);
  const std::uint32_t kv_cols = m_->config_.layer.heads.kv_cols();
  for (std::uint32_t i = 0; i < m_->config_.layer_count; ++i) {
    const std::uint32_t col = m_->config_.layer.dim + i * 2 * kv_cols;
    backend_.store(
        {.x = arrived.column_range(col, kv_cols), .cache = memory_.keys()[i], .first = slot});
    backend_.store({.x = arrived.column_range(col + kv_cols, kv_cols),
                    .cache = memory_.values()[i],
                    .first = slot});
  }
  for (std::uint32_t i = 0; i < count; ++i) memory_positions_.push_back(first_position + i);
  memory_.set_length(slot + count);
}

void MultistreamNetwork::truncate_memory(std::uint32_t position) {
  states_.drop(position);
  std::vector<std::uint32_t> slots;
  std::vector<std::uint32_t> positions;
  for (std::uint32_t slot = 0; slot < memory_count(); ++slot) {
    if (memory_positions_[slot] >= position) continue;
    slots.push_back(slot);
    positions.push_back(memory_positions_[slot]);
  }
  if (slots.size() == memory_count()) return;
  memory_positions_ = std::move(positions);
  memory_.set_length(0);
  memory_.keep(slots);
}

std::uint32_t MultistreamNetwork::first_hidden(std::uint32_t position) const {
  const auto hidden = std::ranges::find_if(memory_positions_,
                                           [&](std::uint32_t stored) { return stored > position; });
  return static_cast<std::uint32_t>(hidden - memory_positions_.begin());
}

std::optional<std::uint32_t> MultistreamNetwork::newest_before(std::uint32_t end) const {
  const auto position = states_.newest_before(end);
  if (!position) return std::nullopt;
  // Masks cover few slots. Only a position whose successor's long text has arrived needs more.
  const std::uint32_t masked = memory_count() - first_hidden(*position);
  if (masked + m_->config_.stream_count > kMaskRowsMax) return std::nullopt;
  return position;
}

Matrix MultistreamNetwork::logits(std::uint32_t position, std::uint32_t first,
                                  std::uint32_t count) {
  const MultistreamConfig& config = m_->config_;
  const std::uint32_t rows = first + count;
  EDGEDRAFT_CHECK(count > 0 && rows <= config.stream_count);
  const std::span<const float> state = states_.at(position);
  std::vector<float> begun;
  for (std::uint32_t j = 0; j < rows; ++j) {
    std::ranges::transform(state, m_->embeddings_[j], std::back_inserter(begun), std::plus{});
  }
  const Matrix x = m_->x_.rows(rows);
  backend_.write(x, begun);

  std::vector<std::uint32_t> positions(rows);
  std::iota(positions.begin(), positions.end(), position + 1);
  const std::uint32_t prefix = first_hidden(position);
  AncestorMask seen;
  for (std::uint32_t slot = prefix; slot < memory_count(); ++slot) {
    if (memory_positions_[slot] <= position) seen.set(slot - prefix);
  }
  std::vector<AncestorMask> masks;
  for (std::uint32_t j = 0; j < rows; ++j) {
    seen.set(memory_count() - prefix + j);
    masks.push_back(seen);
  }
  const RowBatch batch{
      .positions = positions, .prefix = prefix, .first_slot = memory_count(), .masks = masks};
  const Matrix normed = m_->scratch_.normed.rows(rows, config.layer.dim);
  const Matrix low = m_->scratch_.gate.rows(rows, config.layer.ffn_dim);
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    const Layer& layer = m_->layers_[i];
    self_attention(backend_, layer, m_->scratch_, x, batch, memory_.keys()[i], memory_.values()[i]);
    backend_.rms_norm({.x = x,
                       .weight = layer.weights.ffn_norm,
                       .y = normed,
                       .epsilon = config.layer.rms_epsilon});
    backend_.matmul({.x = normed, .weight = m_->adapters_[i].down, .bias = {}, .y = low});
    backend_.matmul(
        {.x = low, .weight = m_->adapters_[i].up, .bias = {}, .y = x, .into = Into::accumulate});
  }
  const Matrix feature = normed.row_range(0, count);
  backend_.rms_norm({.x = x.row_range(first, count),
                     .weight = m_->output_norm_,
                     .y = feature,
                     .epsilon = config.layer.rms_epsilon});
  const Matrix logits = m_->logits_.rows(count);
  backend_.matmul({.x = feature, .weight = m_->head_, .bias = {}, .y = logits});
  return logits;
}

}  // namespace edgedraft
