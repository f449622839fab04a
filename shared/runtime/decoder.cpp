#include "shared/runtime/decoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

StatePlanes planes_of(const DecoderConfig& config, std::vector<std::uint32_t> states) {
  const std::uint32_t cols = states.empty() ? 0 : config.layer.dim;
  return {.states = std::move(states), .cols = cols};
}

// 0 without a layer that sees all positions: sequences are counted by its pages. 0 with recurrent
// layers, too, which no family combines with windows.
std::uint32_t window_of(const DecoderConfig& config) {
  const std::vector<std::uint32_t> windows = config.kv_windows();
  if (config.is_recurrent() || std::ranges::count(windows, 0u) == 0) return 0;
  return *std::ranges::max_element(windows);
}

// For all positions; empty if none grows.
std::vector<float> factors_of(const QueryGrowth& growth, std::uint32_t positions) {
  std::vector<float> factors;
  if (growth.scale == 0.0f || positions <= growth.length) return factors;
  for (std::uint32_t p = 0; p < positions; ++p) factors.push_back(growth.at(p));
  return factors;
}

TensorView column_of(const std::vector<float>& numbers) {
  return {.type = DType::f32,
          .rows = static_cast<std::uint32_t>(numbers.size()),
          .cols = 1,
          .bytes = std::as_bytes(std::span(numbers))};
}

float number_of(const TensorView& stored, float fallback) {
  float number = fallback;
  if (stored.present()) dequantize_row(stored.type, stored.bytes, std::span(&number, 1));
  return number;
}

}  // namespace

Decoder::Decoder(Backend& backend, const DecoderConfig& config, const DecoderTensors& tensors,
                 std::uint32_t positions_max, std::vector<std::uint32_t> states)
    : backend_(backend),
      config_(config),
      positions_max_(positions_max),
      window_(window_of(config)),
      planes_(planes_of(config, std::move(states))),
      store_(backend),
      embedding_(store_.add(tensors.token_embd)),
      output_norm_(store_.add_vector(tensors.output_norm)),
      head_(store_.add_matrix(tensors.output.value_or(tensors.token_embd))),
      layer_table_(store_.add(tensors.layer_embd)),
      layer_projection_(store_.add_matrix(tensors.layer_embd_projection)),
      layer_norm_(store_.add_vector(tensors.layer_embd_norm)),
      growth_(factors_of(config.query_growth, positions_max)),
      query_factors_(store_.add(column_of(growth_))),
      scratch_(backend, config_, kMaskRowsMax),
      x_(backend, kMaskRowsMax, config.layer.dim),
      causal_masks_(edgedraft::causal_masks(kMaskRowsMax)) {
  EDGEDRAFT_CHECK(std::ranges::is_sorted(planes_.states, std::ranges::less_equal()) ||
                  planes_.count() < 2);
  EDGEDRAFT_CHECK(planes_.states.empty() || planes_.states.back() <= config.layer_count + 1);
  if (layer_table_) {
    layer_rows_.emplace(backend, kMaskRowsMax, layer_table_.cols);
    layer_products_.emplace(backend, kMaskRowsMax, layer_table_.cols);
  }
  std::uint32_t cached = 0;
  for (std::uint32_t i = 0; i < config_.layer_count; ++i) {
    const LayerPlan plan = config_.plan(i);
    EDGEDRAFT_CHECK(config_.plan(i - plan.kv_back).window == plan.window);
    layers_.push_back(make_layer(plan, tensors.layers[i]));
    caches_.push_back(plan.kv_back == 0 ? cached : caches_[i - plan.kv_back]);
    if (plan.mixer == Mixer::attention && plan.kv_back == 0) ++cached;
  }
}

Layer Decoder::make_layer(const LayerPlan& plan, const LayerTensors& tensors) {
  const auto table = [&](std::optional<OwnedMatrix>& of, const RopeConfig& rope) {
    const std::uint32_t head_dim = plan.shape.heads.head_dim;
    if (!of) of = make_rope_table(backend_, rope, head_dim, positions_max_);
    return of->all();
  };
  const bool attends = plan.mixer == Mixer::attention;
  if (attends && plan.shape.heads.head_dim > backend_.head_dim_max()) {
    throw DeviceError("the model has heads of " + std::to_string(plan.shape.heads.head_dim) +
                      " columns, and attention on this device takes at most " +
                      std::to_string(backend_.head_dim_max()) + "; use --device cpu");
  }
  Matrix cos_sin;
  RopeStyle style = config_.rope.style;
  if (attends && plan.rope == LayerPlan::Rope::main) {
    cos_sin = table(cos_sin_, config_.rope);
  }
  if (attends && plan.rope == LayerPlan::Rope::window) {
    cos_sin = table(window_cos_sin_, config_.window_rope);
    style = config_.window_rope.style;
  }
  return {.plan = plan,
          .weights = store_.add_layer(tensors),
          .rope_style = style,
          .cos_sin = cos_sin,
          .query_factors = query_factors_,
          .output_scale = number_of(tensors.output_scale, 1.0f)};
}

KvCache Decoder::make_cache(DType type) const {
  KvCache cache(
      backend_,
      {.kv_cols = config_.kv_cols(), .capacity = slots_max(), .type = type, .planes = planes_});
  if (is_recurrent()) {
    cache.set_states(std::make_unique<RecurrentStates>(backend_, config_, kMaskRowsMax));
  }
  return cache;
}

KvPool::Size Decoder::pool_size(std::uint32_t page_count, DType type,
                                std::uint32_t page_slots) const {
  return {.kv_cols = config_.kv_cols(),
          .page_count = page_count,
          .page_slots = page_slots,
          .type = type,
          .planes = planes_};
}

KvCache Decoder::make_cache(KvPool& pool) const {
  EDGEDRAFT_CHECK(pool.size().kv_cols == config_.kv_cols() && pool.size().planes == planes_);
  KvCache cache(pool, slots_max());
  if (is_recurrent()) {
    cache.set_states(std::make_unique<RecurrentStates>(backend_, config_, kRecurrentRowsMax));
  }
  return cache;
}

Decoder::PoolSizes Decoder::pool_sizes(DType type, std::uint32_t page_slots) const {
  EDGEDRAFT_CHECK(window_ > 0);
  PoolSizes sizes{.whole = pool_size(0, type, page_slots),
                  .windowed = pool_size(0, type, page_slots)};
  sizes.whole.kv_cols.clear();
  sizes.windowed.kv_cols.clear();
  sizes.windowed.planes = {};
  const std::vector<std::uint32_t> cols = config_.kv_cols();
  const std::vector<std::uint32_t> windows = config_.kv_windows();
  for (std::size_t i = 0; i < cols.size(); ++i) {
    (windows[i] > 0 ? sizes.windowed : sizes.whole).kv_cols.push_back(cols[i]);
  }
  return sizes;
}

KvCache Decoder::make_cache(KvPool& whole, KvPool& windowed) const {
  const PoolSizes sizes = pool_sizes();
  EDGEDRAFT_CHECK(whole.size().kv_cols == sizes.whole.kv_cols && whole.size().planes == planes_ &&
                  windowed.size().kv_cols == sizes.windowed.kv_cols);
  return KvCache(whole, windowed, config_.kv_windows(), slots_max());
}

std::uint64_t Decoder::pooled_bytes(std::uint32_t slots, DType type) const {
  if (window_ == 0) {
    KvPool::Size all = pool_size(0, type);
    all.page_count = all.pages_for(slots);
    return all.bytes();
  }
  PoolSizes sizes = pool_sizes(type);
  sizes.whole.page_count = sizes.whole.pages_for(slots);
  sizes.windowed.page_count = WindowPages::pages_for(window_, slots, sizes.windowed.page_slots);
  return sizes.whole.bytes() + sizes.windowed.bytes();
}

void Decoder::forward(KvCache& cache, std::span<const std::uint32_t> tokens,
                      const RowBatch& batch) {
  const SequenceRows one{.cache = &cache, .tokens = tokens, .batch = batch};
  forward(std::span(&one, 1));
}

void Decoder::forward(std::span<const SequenceRows> sequences) {
  tokens_.clear();
  for (const SequenceRows& rows : sequences) {
    EDGEDRAFT_CHECK(rows.tokens.size() == rows.batch.positions.size());
    EDGEDRAFT_CHECK(rows.batch.first_slot + rows.tokens.size() <= rows.cache->slots());
    rows.cache->begin_rows(rows.batch.positions, rows.batch.first_slot);
    tokens_.insert(tokens_.end(), rows.tokens.begin(), rows.tokens.end());
  }
  EDGEDRAFT_CHECK(!tokens_.empty() && tokens_.size() <= kMaskRowsMax);
  const Matrix x = x_.rows(static_cast<std::uint32_t>(tokens_.size()));
  backend_.embed({.table = embedding_, .tokens = tokens_, .y = x});
  if (layer_table_) embed_layers(x);
  if (config_.embedding_scale != 1.0f) {
    backend_.scale({.x = x, .factor = config_.embedding_scale});
  }
  begin_states(sequences);
  for (std::uint32_t i = 0; i < layers_.size(); ++i) {
    store_state(i, x, sequences);
    mix(i, x, sequences);
    feed_forward(backend_, layers_[i], scratch_, x);
    finish_layer(backend_, layers_[i], scratch_, x, layer_embedding(i, x.rows));
  }
  for (const SequenceRows& rows : sequences) {
    if (rows.cache->recurrent() != nullptr) rows.cache->recurrent()->end();
  }
  store_state(config_.layer_count, x, sequences);
  store_state(config_.layer_count + 1, x, sequences);
}

// Source    Gemma 3n and 4: (sqrt(P) table[t] + RMSNorm(W e)) / sqrt(2), where e is the unscaled
//           embedding of token t and P the columns of one layer
void Decoder::embed_layers(const Matrix& x) {
  const auto cols = static_cast<float>(config_.layer_embedding_dim());
  const Matrix rows = layer_rows_->rows(x.rows);
  const Matrix products = layer_products_->rows(x.rows);
  backend_.embed({.table = layer_table_, .tokens = tokens_, .y = rows});
  backend_.scale({.x = rows, .factor = std::sqrt(cols)});
  backend_.matmul({.x = x, .weight = layer_projection_, .bias = {}, .y = products});
  backend_.rms_norm({.x = products,
                     .weight = layer_norm_,
                     .y = rows,
                     .epsilon = config_.layer.rms_epsilon,
                     .into = Into::accumulate});
  backend_.scale({.x = rows, .factor = std::sqrt(0.5f)});
}

Matrix Decoder::layer_embedding(std::uint32_t i, std::uint32_t rows) const {
  if (!layer_rows_) return {};
  const std::uint32_t cols = config_.layer_embedding_dim();
  return layer_rows_->rows(rows).column_range(i * cols, cols);
}

void Decoder::begin_states(std::span<const SequenceRows> sequences) {
  if (!is_recurrent()) return;
  for (const SequenceRows& rows : sequences) {
    const RowBatch& batch = rows.batch;
    parents_.clear();
    for (std::uint32_t r = 0; r < batch.count(); ++r) {
      const std::uint32_t own = batch.first_slot + r - batch.prefix;
      const std::uint32_t parent =
          batch.masks.empty() ? kNoParent : batch.masks[r].last_before(own);
      parents_.push_back(parent == kNoParent ? kNoParent : batch.prefix + parent);
    }
    rows.cache->recurrent()->begin(rows.cache->length(), batch.first_slot, batch.settled, parents_);
  }
}

void Decoder::mix(std::uint32_t i, const Matrix& x, std::span<const SequenceRows> sequences) {
  const Layer& layer = layers_[i];
  if (layer.plan.mixer == Mixer::attention) {
    batches_.clear();
    for (const SequenceRows& rows : sequences) {
      batches_.push_back({.batch = rows.batch,
                          .keys = rows.cache->keys()[caches_[i]],
                          .values = rows.cache->values()[caches_[i]]});
    }
    self_attention(backend_, layer, scratch_, x, batches_);
    return;
  }
  convolution_rows_.clear();
  delta_rows_.clear();
  for (const SequenceRows& rows : sequences) {
    convolution_rows_.push_back(rows.cache->recurrent()->convolution(i));
    delta_rows_.push_back(rows.cache->recurrent()->delta(i));
  }
  if (layer.plan.mixer == Mixer::convolution) {
    short_convolution(backend_, layer, scratch_, x, convolution_rows_);
  } else {
    delta_net(backend_, layer, scratch_, x, convolution_rows_, delta_rows_);
  }
}

void Decoder::store_state(std::uint32_t state, const Matrix& x,
                          std::span<const SequenceRows> sequences) {
  if (!std::ranges::binary_search(planes_.states, state)) return;
  Matrix rows = x;
  if (state > config_.layer_count) {
    rows = scratch_.normed.rows(x.rows);
    norm(x, rows);
  }
  scratch_.stores.clear();
  std::uint32_t first = 0;
  for (const SequenceRows& sequence : sequences) {
    const std::uint32_t count = sequence.batch.count();
    scratch_.stores.push_back({.x = rows.row_range(first, count),
                               .cache = sequence.cache->states(state),
                               .first = sequence.batch.first_slot});
    first += count;
  }
  backend_.stores(scratch_.stores);
}

void Decoder::norm(const Matrix& x, const Matrix& y) {
  backend_.rms_norm({.x = x, .weight = output_norm_, .y = y, .epsilon = config_.layer.rms_epsilon});
}

std::uint32_t Decoder::append(KvCache& cache, std::span<const std::uint32_t> tokens) {
  std::vector<std::uint32_t> positions;
  std::uint32_t count = 0;
  for (std::size_t done = 0; done < tokens.size(); done += count) {
    if (done > 0) backend_.wait();  // a device cannot queue a whole text at once
    count = static_cast<std::uint32_t>(std::min<std::size_t>(kMaskRowsMax, tokens.size() - done));
    positions.resize(count);
    std::iota(positions.begin(), positions.end(), cache.length());
    forward(cache, tokens.subspan(done, count),
            {.positions = positions,
             .prefix = cache.length(),
             .first_slot = cache.length(),
             .masks = std::span(causal_masks_).first(count),
             .settled = is_recurrent() ? count - 1 : 0});
    cache.set_length(cache.length() + count);
  }
  return count;
}

Matrix Decoder::logits(std::uint32_t first, std::uint32_t count) {
  if (!logits_ || logits_->all().rows < count) {
    logits_.reset();
    logits_ = std::make_unique<OwnedMatrix>(backend_, count, head_.rows);
  }
  const Matrix y = logits_->rows(count);
  const Matrix normed = scratch_.normed.rows(count);
  norm(x_.all().row_range(first, count), normed);
  backend_.matmul({.x = normed, .weight = head_, .bias = {}, .y = y});
  if (config_.logit_cap != 0.0f) backend_.soft_cap({.x = y, .cap = config_.logit_cap});
  return y;
}

}  // namespace edgedraft
