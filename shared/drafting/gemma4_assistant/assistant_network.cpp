#include "shared/drafting/gemma4_assistant/assistant_network.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

std::uint32_t sum_of(std::span<const std::uint32_t> groups) {
  return std::accumulate(groups.begin(), groups.end(), 0u);
}

float scale_of(const TensorView& stored) {
  float scale = 1.0f;
  if (stored.present()) dequantize_row(stored.type, stored.bytes, std::span(&scale, 1));
  return scale;
}

}  // namespace

AssistantWeights::AssistantWeights(Backend& backend, const AssistantModel& model,
                                   std::uint32_t positions_max)
    : backend_(backend),
      model_(model),
      positions_max_(positions_max),
      row_cols_(sum_of(model.scale_groups())),
      store_(backend),
      embedding_(store_.add(model.token_embd)),
      head_(store_.add_matrix(model.output)),
      output_norm_(store_.add_vector(model.output_norm)),
      fc_embedding_(store_.add_matrix(model.fc_embedding)),
      fc_feature_(store_.add_matrix(model.fc_feature)),
      fc_next_(store_.add_matrix(model.fc_next)),
      scratch_(backend, model.blocks, kMaskRowsMax),
      arrived_(backend, kMaskRowsMax, row_cols_),
      wide_(backend, kMaskRowsMax, model.target_dim),
      x_(backend, kMaskRowsMax, model.dim()),
      normed_(backend, kMaskRowsMax, model.dim()),
      next_(backend, kMaskRowsMax, model.dim()),
      zeros_(backend, kMaskRowsMax, model.dim()) {
  for (const AssistantMemory& memory : model_.memories) {
    key_norms_.push_back(store_.add_vector(memory.key_norm));
  }
  for (std::uint32_t i = 0; i < model_.blocks.layer_count; ++i) layers_.push_back(make_layer(i));
}

Layer AssistantWeights::make_layer(std::uint32_t block) {
  LayerPlan plan = model_.blocks.layers[block];
  const std::uint32_t head_dim = plan.shape.heads.head_dim;
  if (head_dim > backend_.head_dim_max()) {
    throw DeviceError("the drafter has heads of " + std::to_string(head_dim) +
                      " columns, and attention on this device takes at most " +
                      std::to_string(backend_.head_dim_max()) + "; use --device cpu");
  }
  const bool is_windowed = plan.rope == LayerPlan::Rope::window;
  const RopeConfig& rope = is_windowed ? model_.blocks.window_rope : model_.blocks.rope;
  std::optional<OwnedMatrix>& table = is_windowed ? window_cos_sin_ : cos_sin_;
  if (!table) table = make_rope_table(backend_, rope, head_dim, positions_max_ + 1);
  plan.window = 0;  // the view of the memory ends there
  const LayerTensors& tensors = model_.layers[block];
  return {.plan = plan,
          .weights = store_.add_layer(tensors),
          .rope_style = rope.style,
          .cos_sin = table->all(),
          .query_factors = {},
          .output_scale = scale_of(tensors.output_scale)};
}

KvCache::Size AssistantWeights::cache_size() const {
  std::vector<std::uint32_t> cols;
  for (const AssistantMemory& memory : model_.memories) cols.push_back(memory.heads.kv_cols());
  return {.kv_cols = std::move(cols),
          .capacity = positions_max_ + 1,
          .type = backend_.drafter_cache_type()};
}

std::uint64_t AssistantWeights::sequence_bytes() const {
  return cache_size().bytes() + sizeof(float) * std::uint64_t{feature_rows()} * model_.dim() +
         TreeFeatures::bytes(model_.dim());
}

AssistantNetwork::AssistantNetwork(Backend& backend, const AssistantModel& model,
                                   std::uint32_t positions_max)
    : AssistantNetwork(std::make_shared<AssistantWeights>(backend, model, positions_max)) {}

AssistantNetwork::AssistantNetwork(std::shared_ptr<AssistantWeights> weights)
    : m_(std::move(weights)),
      backend_(m_->backend_),
      has_row_(m_->positions_max_, false),
      cache_(backend_, m_->cache_size()),
      features_(backend_, m_->feature_rows(), m_->model_.dim()),
      tree_(backend_, m_->model_.dim(), m_->zeros_.all()) {}

Matrix AssistantNetwork::feature(std::int64_t position) const {
  return features_.all().row_range(static_cast<std::uint32_t>(position + 1), 1);
}

void AssistantNetwork::extend_memory(std::uint32_t first_position, std::span<const float> rows) {
  const std::size_t cols = m_->row_cols_;
  EDGEDRAFT_CHECK(rows.size() % cols == 0);
  // The server's context may be longer; positions beyond the drafter's are not drafted.
  const std::size_t free = m_->positions_max_ - std::min(first_position, m_->positions_max_);
  const std::size_t count = std::min(rows.size() / cols, free);
  for (std::size_t done = 0; done < count; done += kMaskRowsMax) {
    const std::size_t chunk = std::min<std::size_t>(kMaskRowsMax, count - done);
    store_rows(first_position + static_cast<std::uint32_t>(done),
               rows.subspan(done * cols, chunk * cols));
  }
  own_end_ = own_first_;
}

void AssistantNetwork::store_rows(std::uint32_t first_position, std::span<const float> rows) {
  const auto count = static_cast<std::uint32_t>(rows.size() / m_->row_cols_);
  const Matrix arrived = m_->arrived_.rows(count);
  backend_.write(arrived, rows);
  std::vector<std::uint32_t> positions(count);
  std::iota(positions.begin(), positions.end(), first_position);
  std::uint32_t col = 0;
  for (std::size_t i = 0; i < m_->model_.memories.size(); ++i) {
    const AssistantMemory& memory = m_->model_.memories[i];
    const std::uint32_t cols = memory.heads.kv_cols();
    Matrix keys = arrived.column_range(col, cols);
    if (const Weight& norm = m_->key_norms_[i]) {
      const auto user = std::ranges::find(m_->model_.memory_of_block, i);
      const Layer& layer =
          m_->layers_[static_cast<std::size_t>(user - m_->model_.memory_of_block.begin())];
      keys = m_->scratch_.k.rows(count, cols);
      backend_.rms_norm({.x = arrived.column_range(col, cols),
                         .weight = norm,
                         .y = keys,
                         .epsilon = layer.plan.shape.rms_epsilon});
      backend_.rope({.x = keys,
                     .positions = positions,
                     .cos_sin = layer.cos_sin,
                     .head_dim = memory.heads.head_dim,
                     .rotated = layer.cos_sin.cols,
                     .style = layer.rope_style});
    } else {
      col += cols;
    }
    backend_.store({.x = keys, .cache = cache_.keys()[i], .first = first_position});
    backend_.store({.x = arrived.column_range(col, cols),
                    .cache = cache_.values()[i],
                    .first = first_position});
    col += cols;
  }
  backend_.store({.x = arrived.column_range(col, m_->model_.dim()),
                  .cache = features_.all(),
                  .first = first_position + 1});
  for (const std::uint32_t p : positions) has_row_[p] = true;
}

void AssistantNetwork::truncate_memory(std::uint32_t position) {
  for (std::uint32_t p = position; p < m_->positions_max_; ++p) has_row_[p] = false;
  own_end_ = own_first_;
}

void AssistantNetwork::truncate(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= committed_count());
  tokens_.resize(count);
  own_end_ = std::min(own_end_, std::max(count, own_first_));
}

std::uint32_t AssistantNetwork::memory_end() const {
  std::uint32_t end = committed_count() - 1;
  while (end > 0 && !has_row_[end - 1]) --end;
  return end;
}

void AssistantNetwork::attend_before(std::uint32_t end) {
  if (end != end_) own_end_ = own_first_;
  end_ = end;
  begin_ = end;
  while (begin_ > 0 && has_row_[begin_ - 1]) --begin_;
}

void AssistantNetwork::commit(std::span<const std::uint32_t> tokens) {
  EDGEDRAFT_CHECK(!tokens.empty() && committed_count() + tokens.size() <= m_->positions_max_);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  attend_before(memory_end());
  const std::uint32_t last = committed_count() - 1;
  const std::uint32_t window = last / kOwnWindow;
  const std::uint32_t first = std::max(end_, (window - std::min(window, 1u)) * kOwnWindow);
  if (first != own_first_ || own_end_ < first) own_first_ = own_end_ = first;
  EDGEDRAFT_CHECK(own_end_ <= last);
  for (; own_end_ <= last; ++own_end_) {
    // Far from the target's rows, the first token follows a feature of zeros.
    const bool is_unknown = own_end_ == first && first != end_;
    const std::int64_t before = is_unknown ? -1 : std::int64_t{own_end_} - 1;
    backend_.store({.x = feature(before), .cache = m_->x_.rows(1), .first = 0});
    run(std::span(tokens_).subspan(own_end_, 1));
    if (has_row_[own_end_]) continue;  // the last token's, which drafts do not need
    backend_.store({.x = m_->next_.rows(1), .cache = features_.all(), .first = own_end_ + 1});
  }
  tree_.set_root(m_->next_.rows(1));
  leave_logits(1);
}

void AssistantNetwork::expand(std::span<const GrowthNode> nodes, Leave leave) {
  const auto count = static_cast<std::uint32_t>(nodes.size());
  std::vector<std::uint32_t> tokens;
  for (const GrowthNode& node : nodes) tokens.push_back(node.token);
  tree_.gather(nodes, m_->x_.rows(count));
  run(tokens);
  tree_.append(m_->next_.rows(count));
  if (leave == Leave::logits) leave_logits(count);
}

void AssistantNetwork::run(std::span<const std::uint32_t> tokens) {
  const auto count = static_cast<std::uint32_t>(tokens.size());
  const Matrix x = m_->x_.rows(count);
  const Matrix wide = m_->wide_.rows(count);
  backend_.embed({.table = m_->embedding_, .tokens = tokens, .y = wide});
  backend_.scale({.x = wide, .factor = std::sqrt(static_cast<float>(wide.cols))});
  backend_.matmul(
      {.x = wide, .weight = m_->fc_embedding_, .bias = {}, .y = x, .into = Into::accumulate});
  const std::vector<std::uint32_t> positions(count, end_);
  for (std::size_t i = 0; i < m_->layers_.size(); ++i) {
    const Layer& layer = m_->layers_[i];
    const std::uint32_t memory = m_->model_.memory_of_block[i];
    const std::uint32_t window = m_->model_.memories[memory].window;
    std::uint32_t first =
        window == 0 ? begin_ : std::max(begin_, end_ - std::min(end_, window - 1));
    std::uint32_t seen = end_ - first;
    if (seen == 0) {  // attention needs a slot
      first = m_->positions_max_;
      seen = 1;
    }
    self_attention(backend_, layer, m_->scratch_, x,
                   {.positions = positions, .prefix = seen, .first_slot = 0, .masks = {}},
                   cache_.keys()[memory].memory.row_range(first, seen),
                   cache_.values()[memory].memory.row_range(first, seen));
    feed_forward(backend_, layer, m_->scratch_, x);
    finish_layer(backend_, layer, m_->scratch_, x, {});
  }
  const Matrix normed = m_->normed_.rows(count);
  backend_.rms_norm({.x = x,
                     .weight = m_->output_norm_,
                     .y = normed,
                     .epsilon = m_->model_.blocks.layer.rms_epsilon});
  backend_.matmul({.x = normed, .weight = m_->fc_next_, .bias = {}, .y = wide});
  backend_.matmul({.x = wide, .weight = m_->fc_feature_, .bias = {}, .y = m_->next_.rows(count)});
}

void AssistantNetwork::leave_logits(std::uint32_t rows) {
  if (!m_->logits_memory_ || m_->logits_memory_->all().rows < rows) {
    m_->logits_memory_.reset();
    m_->logits_memory_ = std::make_unique<OwnedMatrix>(backend_, rows, m_->head_.rows);
  }
  logits_ = m_->logits_memory_->rows(rows);
  backend_.matmul({.x = m_->normed_.rows(rows), .weight = m_->head_, .bias = {}, .y = logits_});
}

}  // namespace edgedraft
