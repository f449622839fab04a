#include "shared/drafting/feature_network.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "shared/base/check.h"
#include "shared/drafting/network_drafter.h"
#include "shared/drafting/network_kind.h"
#include "shared/drafting/state_tap.h"

namespace edgedraft {
namespace {

KvCache::Size cache_size(const Backend& backend, const LayerShape& shape,
                         std::uint32_t input_count) {
  return {.kv_cols = {shape.heads.kv_cols()},
          .capacity = input_count + kMaskRowsMax,
          .type = backend.drafter_cache_type()};
}

// Features of the root and of each draft row.
constexpr std::uint32_t kTreeFeatures = kMaskRowsMax + 1;

// Any heads whose sizes add up to `dim`.
HeadShape heads_of(std::uint32_t dim) {
  std::uint32_t head_dim = 256;
  while (dim % head_dim != 0) head_dim -= 2;
  return {.query_heads = dim / head_dim, .kv_heads = dim / head_dim, .head_dim = head_dim};
}

// A node's youngest ancestor is its parent.
std::uint32_t parent_row(const AncestorMask& ancestors) {
  for (std::uint32_t word = static_cast<std::uint32_t>(ancestors.bits.size()); word-- > 0;) {
    if (ancestors.bits[word] == 0) continue;
    return word * 64 + 63 - static_cast<std::uint32_t>(std::countl_zero(ancestors.bits[word]));
  }
  EDGEDRAFT_CHECK(false);  // only children of the root have none
}

AncestorMask mask_of(std::uint32_t row) {
  AncestorMask mask;
  mask.set(row);
  return mask;
}

}  // namespace

FeatureWeights::FeatureWeights(Backend& backend, const FeatureModel& model,
                               std::uint32_t positions_max)
    : backend_(backend),
      sizes_(model.sizes),
      dim_(model.plan.shape.dim),
      first_(model.has_first ? 1 : 0),
      is_joined_(model.is_joined),
      starts_normed_(model.starts_normed),
      positions_max_(positions_max),
      store_(backend),
      cos_sin_(make_rope_table(backend, model.rope, model.plan.shape.heads.head_dim,
                               input_count() + kMaskRowsMax)),
      embedding_(store_.add(model.token_embd)),
      head_(store_.add_matrix(model.output.value_or(model.token_embd))),
      embedding_norm_(store_.add_vector(model.embedding_norm)),
      feature_norm_(store_.add_vector(model.feature_norm)),
      fc_embedding_(store_.add_matrix(model.fc_embedding)),
      fc_feature_(store_.add_matrix(model.fc_feature)),
      fc_bias_(store_.add_vector(model.fc_bias)),
      output_norm_(store_.add_vector(model.output_norm)),
      head_norm_(store_.add_vector(model.head_norm)),
      layer_{.plan = model.plan,
             .weights = store_.add_layer(model.layer),
             .rope_style = model.rope.style,
             .cos_sin = cos_sin_.all()},
      scratch_(backend, model.plan, kMaskRowsMax),
      gather_heads_(heads_of(dim_)),
      x_(backend, kMaskRowsMax, dim_),
      embedded_(backend, kMaskRowsMax, dim_),
      joined_(backend, is_joined_ ? kMaskRowsMax : 1, is_joined_ ? 2 * dim_ : 1),
      parents_(backend, kMaskRowsMax, dim_),
      zeros_(backend, kMaskRowsMax, dim_) {}

std::uint64_t FeatureWeights::sequence_bytes() const {
  return cache_size(backend_, layer_.plan.shape, input_count()).bytes() +
         sizeof(float) * (std::uint64_t{input_count()} + kTreeFeatures) * dim_;
}

FeatureNetwork::FeatureNetwork(Backend& backend, const FeatureModel& model,
                               std::uint32_t positions_max)
    : FeatureNetwork(std::make_shared<FeatureWeights>(backend, model, positions_max)) {}

FeatureNetwork::FeatureNetwork(std::shared_ptr<FeatureWeights> weights)
    : m_(std::move(weights)),
      backend_(m_->backend_),
      tokens_(m_->first_, 0),
      features_(backend_, m_->input_count(), m_->dim_),
      is_true_(m_->input_count(), false),
      has_input_(m_->input_count(), false),
      cache_(backend_, cache_size(backend_, m_->layer_.plan.shape, m_->input_count())),
      tree_features_(backend_, kTreeFeatures, m_->dim_) {
  if (m_->first_ == 1) is_true_[0] = true;  // memory is zeroed
}

void FeatureNetwork::extend_memory(std::uint32_t first_position, std::span<const float> rows) {
  const std::size_t cols = activation_cols();
  EDGEDRAFT_CHECK(rows.size() % cols == 0);
  draft_rows_ = 0;
  // The server's context may be longer; positions beyond the drafter's are not drafted.
  const std::size_t room = m_->positions_max_ - std::min(first_position, m_->positions_max_);
  const auto count = static_cast<std::uint32_t>(std::min(rows.size() / cols, room));
  if (count == 0) return;
  const std::uint32_t first = first_position + m_->first_;
  backend_.write(features_.all().row_range(first, count), rows.first(count * cols));
  for (std::uint32_t i = 0; i < count; ++i) is_true_[first + i] = true;
  own_end_ = std::min(own_end_, std::max(first, own_first_));
}

void FeatureNetwork::truncate_memory(std::uint32_t position) {
  draft_rows_ = 0;
  const std::uint32_t first = position + m_->first_;
  for (std::uint32_t p = first; p < m_->input_count(); ++p) is_true_[p] = false;
  drop_inputs(first);
}

void FeatureNetwork::drop_inputs(std::uint32_t position) {
  const auto is_dropped = [&](std::uint32_t p) { return p >= position; };
  const auto first = std::ranges::find_if(input_positions_, is_dropped);
  if (first == input_positions_.end()) return;
  const auto unchanged = static_cast<std::uint32_t>(first - input_positions_.begin());
  std::vector<std::uint32_t> kept;
  for (std::uint32_t slot = unchanged; slot < memory_count(); ++slot) {
    const bool dropped = is_dropped(input_positions_[slot]);
    if (dropped) has_input_[input_positions_[slot]] = false;
    if (!dropped) kept.push_back(slot);
  }
  std::erase_if(input_positions_, is_dropped);
  cache_.set_length(unchanged);
  if (!kept.empty()) cache_.keep(kept);
  own_end_ = own_first_;  // their slots follow the memory, which has changed
}

void FeatureNetwork::truncate(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= committed_count());
  draft_rows_ = 0;
  const std::uint32_t end = count + m_->first_;
  tokens_.resize(end);
  // An input needs the token after its feature.
  drop_inputs(end == 0 ? 0 : end - 1);
  own_end_ = std::min(own_end_, std::max(end, own_first_));
}

void FeatureNetwork::commit(std::span<const std::uint32_t> tokens) {
  EDGEDRAFT_CHECK(!tokens.empty() && committed_count() + tokens.size() <= m_->positions_max_);
  draft_rows_ = 0;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  add_inputs();
  predict_features();
  const std::uint32_t last = input_end() - 1;
  const Matrix feature = features_.all().row_range(last, 1);
  backend_.store({.x = feature, .cache = tree_features_.all(), .first = 0});
  leave_logits(m_->is_joined_ && is_true_[last] ? predict_feature(last) : feature);
}

std::uint32_t FeatureNetwork::true_end() const {
  std::uint32_t end = input_end();
  while (end > 0 && !is_true_[end - 1]) --end;
  return end;
}

void FeatureNetwork::add_inputs() {
  const std::uint32_t end = input_end() - 1;
  const auto is_wanted = [&](std::uint32_t p) { return is_true_[p] && !has_input_[p]; };
  std::uint32_t enqueued = 0;
  for (std::uint32_t first = 0; first < end; ++first) {
    if (!is_wanted(first)) continue;
    std::uint32_t count = 1;
    while (count < kMaskRowsMax && first + count < end && is_wanted(first + count)) ++count;
    if (enqueued + count > kMaskRowsMax) {
      backend_.wait();  // a device cannot queue a whole text at once
      enqueued = 0;
    }
    add_inputs(first, count);
    enqueued += count;
    first += count - 1;
  }
}

// Only the newest input's output is used, and predict_feature() computes it.
void FeatureNetwork::add_inputs(std::uint32_t first_position, std::uint32_t count) {
  const Inputs inputs = fuse(std::span(tokens_).subspan(first_position + 1, count),
                             features_.all().row_range(first_position, count));
  std::vector<std::uint32_t> positions(count);
  std::iota(positions.begin(), positions.end(), first_position);
  store_keys(backend_, m_->layer_, m_->scratch_, inputs.attended,
             {.rows = count,
              .keys = cache_.keys()[0],
              .values = cache_.values()[0],
              .first = memory_count()},
             positions);
  input_positions_.insert(input_positions_.end(), positions.begin(), positions.end());
  for (const std::uint32_t p : positions) has_input_[p] = true;
  cache_.set_length(memory_count() + count);
  own_end_ = own_first_;
}

void FeatureNetwork::predict_features() {
  std::uint32_t first = true_end();
  if (first <= m_->first_) {
    const std::uint32_t window = (input_end() - 1) / kOwnWindow;
    first = std::max((window - std::min(window, 1u)) * kOwnWindow, m_->first_);
  }
  if (first != own_first_ || own_end_ < first) {
    own_first_ = first;
    own_end_ = first;
  }
  while (own_end_ < input_end()) {
    const Matrix x = predict_feature(own_end_);
    backend_.store({.x = x, .cache = features_.all(), .first = own_end_});
    ++own_end_;
  }
}

Matrix FeatureNetwork::predict_feature(std::uint32_t position) {
  const std::uint32_t memory = memory_count();
  const std::uint32_t token = tokens_[position];
  const AncestorMask itself = mask_of(0);
  // Runs the preceding input. Without one, starts from zeros; such a row attends only to itself and
  // the memory and is not cached.
  std::uint32_t input = position - 1;
  Matrix feature = m_->zeros_.rows(1);
  RowBatch batch{.positions = std::span(&input, 1),
                 .prefix = memory,
                 .first_slot = memory,
                 .masks = std::span(&itself, 1)};
  if (position > own_first_) {
    feature = features_.all().row_range(input, 1);
    batch.prefix += input - own_first_;
    batch.first_slot = batch.prefix;
  } else if (position > 0 && is_true_[input]) {
    // The memory has the input's keys and values already; the recomputed ones are overwritten
    // later.
    feature = features_.all().row_range(input, 1);
    batch.masks = {};
  } else {
    input = position;
  }
  const Inputs inputs = fuse(std::span(&token, 1), feature);
  run_layer(inputs, batch);
  return inputs.x;
}

void FeatureNetwork::expand(std::span<const GrowthNode> nodes, Leave leave) {
  const auto count = static_cast<std::uint32_t>(nodes.size());
  // Feature positions: one less than those of the nodes' tokens.
  DraftRows rows = make_draft_rows(nodes, input_end(), draft_rows_);
  for (std::uint32_t& position : rows.positions) --position;
  // Each node takes its parent's feature; attention to a single row copies it.
  std::vector<AncestorMask> parents;
  for (const GrowthNode& node : nodes) {
    parents.push_back(mask_of(node.depth == 1 ? 0 : 1 + parent_row(node.ancestors)));
  }
  const Matrix features = m_->parents_.rows(count);
  backend_.attention({.q = m_->zeros_.rows(count),
                      .keys = tree_features_.all(),
                      .values = tree_features_.all(),
                      .prefix = 0,
                      .masks = parents,
                      .heads = m_->gather_heads_,
                      .y = features,
                      .scale = m_->gather_heads_.score_scale()});
  const Inputs inputs = fuse(rows.tokens, features);
  const std::uint32_t prefix = memory_count() + own_inputs();
  run_layer(inputs, {.positions = rows.positions,
                     .prefix = prefix,
                     .first_slot = prefix + draft_rows_,
                     .masks = rows.masks});
  backend_.store({.x = inputs.x, .cache = tree_features_.all(), .first = 1 + draft_rows_});
  draft_rows_ += count;
  if (leave == Leave::logits) leave_logits(inputs.x);
}

FeatureNetwork::Inputs FeatureNetwork::fuse(std::span<const std::uint32_t> tokens,
                                            const Matrix& features) {
  if (m_->is_joined_) return join(tokens, features);
  const auto count = static_cast<std::uint32_t>(tokens.size());
  const Matrix embedded = m_->embedded_.rows(count);
  const Matrix x = m_->x_.rows(count);
  backend_.embed({.table = m_->embedding_, .tokens = tokens, .y = embedded});
  norm(m_->embedding_norm_, embedded, embedded);
  Matrix normed = features;
  if (m_->feature_norm_) {
    normed = m_->scratch_.normed.rows(count, m_->dim_);
    norm(m_->feature_norm_, features, normed);
  }
  backend_.matmul({.x = embedded, .weight = m_->fc_embedding_, .bias = m_->fc_bias_, .y = x});
  backend_.matmul(
      {.x = normed, .weight = m_->fc_feature_, .bias = {}, .y = x, .into = Into::accumulate});
  return {.x = x, .attended = x};
}

FeatureNetwork::Inputs FeatureNetwork::join(std::span<const std::uint32_t> tokens,
                                            const Matrix& features) {
  const auto count = static_cast<std::uint32_t>(tokens.size());
  const Matrix embedded = m_->embedded_.rows(count);
  const Matrix joined = m_->joined_.rows(count);
  const Matrix x = m_->x_.rows(count);
  backend_.embed({.table = m_->embedding_, .tokens = tokens, .y = embedded});
  norm(m_->embedding_norm_, embedded, joined.column_range(0, m_->dim_));
  norm(m_->feature_norm_, features, joined.column_range(m_->dim_, m_->dim_));
  if (m_->starts_normed_) {
    norm(m_->feature_norm_, features, x);
  } else {
    backend_.store({.x = features, .cache = x, .first = 0});
  }
  return {.x = x, .attended = joined};
}

void FeatureNetwork::run_layer(const Inputs& inputs, const RowBatch& batch) {
  const SequenceBatch rows{.batch = batch, .keys = cache_.keys()[0], .values = cache_.values()[0]};
  if (m_->is_joined_) {
    self_attention(backend_, m_->layer_, m_->scratch_, inputs.x, inputs.attended,
                   std::span(&rows, 1));
  } else {
    self_attention(backend_, m_->layer_, m_->scratch_, inputs.x, std::span(&rows, 1));
  }
  feed_forward(backend_, m_->layer_, m_->scratch_, inputs.x);
  norm(m_->output_norm_, inputs.x, inputs.x);
}

void FeatureNetwork::norm(const Weight& weight, const Matrix& x, const Matrix& y) {
  if (!weight) return;
  backend_.rms_norm(
      {.x = x, .weight = weight, .y = y, .epsilon = m_->layer_.plan.shape.rms_epsilon});
}

// Features after the target's final norm need none before the head.
void FeatureNetwork::leave_logits(const Matrix& features) {
  if (!m_->logits_memory_ || m_->logits_memory_->all().rows < features.rows) {
    m_->logits_memory_.reset();
    m_->logits_memory_ = std::make_unique<OwnedMatrix>(backend_, features.rows, m_->head_.rows);
  }
  logits_ = m_->logits_memory_->rows(features.rows);
  Matrix normed = features;
  if (m_->head_norm_) {
    normed = m_->scratch_.normed.rows(features.rows, m_->dim_);
    norm(m_->head_norm_, features, normed);
  }
  backend_.matmul({.x = normed, .weight = m_->head_, .bias = {}, .y = logits_});
}

DrafterFacts feature_facts(const FeatureModel& model, std::string pace_name) {
  return {.vocabulary_count = model.sizes.vocabulary_count,
          .context_count = model.sizes.context_length,
          .step_bytes = model.output.value_or(model.token_embd).bytes.size() +
                        model.fc_embedding.bytes.size() + model.fc_feature.bytes.size() +
                        matrix_bytes(model.layer),
          .tap = kFeatureTap,
          .pace_name = std::move(pace_name),
          .target = {.layer_count = model.sizes.target_layer_count, .dim = model.plan.shape.dim}};
}

std::unique_ptr<DrafterWeights> load_feature_drafters(Backend& backend, const FeatureModel& model,
                                                      std::uint32_t positions_max) {
  auto weights = std::make_shared<FeatureWeights>(backend, model, positions_max);
  const std::uint64_t bytes = weights->sequence_bytes();
  return share_weights<MemoryDrafter<FeatureNetwork>>(std::move(weights), bytes);
}

std::unique_ptr<Tap> make_feature_tap(Backend& backend, const FeatureModel& model) {
  return make_feature_tap(backend, model.sizes.target_layer_count, model.plan.shape.dim);
}

}  // namespace edgedraft
