#include "shared/runtime/layer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kTablePart = 1024;  // positions

// Products of norm(x), which goes to `normed`; of x itself without a norm.
void normed_products(Backend& backend, const Layer& layer, const Weight& norm, const Matrix& x,
                     const Matrix& normed, std::span<const MatmulOp> products) {
  if (!norm) {
    backend.matmuls(products);
    return;
  }
  backend.norm_matmuls(
      {.x = x, .weight = norm, .y = normed, .epsilon = layer.plan.shape.rms_epsilon}, products);
}

void norm_heads(Backend& backend, const Layer& layer, const Weight& norm, const Matrix& heads) {
  if (!norm) return;
  backend.rms_norm(
      {.x = heads, .weight = norm, .y = heads, .epsilon = layer.plan.shape.rms_epsilon});
}

// Without a product of their own, values come from keys that are not normed yet.
void norm_values(Backend& backend, const Layer& layer, const Matrix& k, const Matrix& v) {
  if (!layer.weights.attn_v_norm) return;
  backend.rms_norm({.x = layer.weights.attn_v ? v : k,
                    .weight = layer.weights.attn_v_norm,
                    .y = v,
                    .epsilon = layer.plan.shape.rms_epsilon});
}

// A mixer's or feed-forward's last product goes to x, or first to rows that are normed.
Matrix sum_of(const LayerScratch& scratch, const Weight& post_norm, const Matrix& x) {
  return post_norm ? scratch.normed.rows(x.rows, x.cols) : x;
}

Into into_of(const Weight& post_norm) {
  return post_norm ? Into::overwrite : Into::accumulate;
}

void add_normed(Backend& backend, const Layer& layer, const Weight& norm, const Matrix& mixed,
                const Matrix& x) {
  if (!norm) return;
  backend.rms_norm({.x = mixed,
                    .weight = norm,
                    .y = x,
                    .epsilon = layer.plan.shape.rms_epsilon,
                    .into = Into::accumulate});
}

}  // namespace

// Widest rows.
struct LayerScratch::Cols {
  std::uint32_t dim = 0;
  std::uint32_t q = 0;
  std::uint32_t kv = 0;
  std::uint32_t attended = 0;
  std::uint32_t mixer_gate = 1;
  std::uint32_t ffn = 1;
  std::uint32_t experts = 1;
  std::uint32_t used = 1;
  std::uint32_t zeros = 1;

  void add(const LayerPlan& plan) {
    const HeadShape& heads = plan.shape.heads;
    dim = std::max(dim, plan.shape.dim);
    ffn = std::max(ffn, plan.shape.ffn_dim);
    q = std::max(q, heads.query_cols());
    kv = std::max(kv, heads.kv_cols());
    attended = std::max(attended, heads.query_cols());
    if (plan.output_gate) mixer_gate = std::max(mixer_gate, heads.query_cols());
    if (plan.mixer == Mixer::delta_rule) {
      q = std::max(q, plan.delta.mixed_cols());
      attended = std::max(attended, plan.delta.mixed_cols());
      kv = std::max(kv, plan.delta.value_heads);
      mixer_gate = std::max(mixer_gate, plan.delta.value_cols());
    }
    if (plan.mixer == Mixer::convolution) {
      q = std::max(q, 3 * plan.shape.dim);
      attended = std::max(attended, plan.shape.dim);
      mixer_gate = std::max(mixer_gate, plan.shape.dim);
    }
    const ExpertShape& e = plan.experts;
    ffn = std::max({ffn, e.used * e.ffn_dim, e.shared_ffn_dim, plan.embedding_dim});
    experts = std::max(experts, e.count);
    used = std::max(used, e.used);
    if (!e.beside_dense) return;
    zeros = std::max(zeros, plan.shape.dim);
    q = std::max(q, plan.shape.dim);
    attended = std::max(attended, plan.shape.dim);
    kv = std::max(kv, e.used);
  }
  static Cols of(const LayerPlan& plan) {
    Cols cols;
    cols.add(plan);
    return cols;
  }
  static Cols of(const DecoderConfig& config) {
    Cols cols;
    for (std::uint32_t i = 0; i < config.layer_count; ++i) cols.add(config.plan(i));
    return cols;
  }
};

LayerScratch::LayerScratch(Backend& backend, const LayerShape& shape, std::uint32_t rows_max)
    : LayerScratch(backend, LayerPlan{.shape = shape}, rows_max) {}

LayerScratch::LayerScratch(Backend& backend, const LayerPlan& plan, std::uint32_t rows_max)
    : LayerScratch(backend, Cols::of(plan), rows_max) {}

LayerScratch::LayerScratch(Backend& backend, const DecoderConfig& config, std::uint32_t rows_max)
    : LayerScratch(backend, Cols::of(config), rows_max) {}

LayerScratch::LayerScratch(Backend& backend, const Cols& cols, std::uint32_t rows_max)
    : normed(backend, rows_max, cols.dim),
      q(backend, rows_max, cols.q),
      k(backend, rows_max, cols.kv),
      v(backend, rows_max, cols.kv),
      attended(backend, rows_max, cols.attended),
      mixer_gate(backend, cols.mixer_gate == 1 ? 1 : rows_max, cols.mixer_gate),
      gate(backend, rows_max, cols.ffn),
      up(backend, rows_max, cols.ffn),
      routed(backend, rows_max, cols.experts),
      experts(backend, rows_max, cols.used),
      shares(backend, rows_max, cols.used),
      mixed(backend, cols.experts == 1 ? 1 : rows_max, cols.used * cols.dim),
      zeros(backend, cols.zeros == 1 ? 1 : rows_max, cols.zeros) {}

std::vector<AncestorMask> causal_masks(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= kMaskRowsMax);
  std::vector<AncestorMask> masks(count);
  for (std::uint32_t row = 0; row < count; ++row) {
    if (row > 0) masks[row] = masks[row - 1];
    masks[row].set(row);
  }
  return masks;
}

void self_attention(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                    const RowBatch& batch, const CacheView& keys, const CacheView& values) {
  const SequenceBatch one{.batch = batch, .keys = keys, .values = values};
  self_attention(backend, layer, scratch, x, std::span(&one, 1));
}

void self_attention(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                    std::span<const SequenceBatch> sequences) {
  const bool is_normed = static_cast<bool>(layer.weights.attn_norm);
  self_attention(backend, layer, scratch, x,
                 is_normed ? scratch.normed.rows(x.rows, layer.plan.shape.dim) : x, sequences);
}

void self_attention(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                    const Matrix& input, std::span<const SequenceBatch> sequences) {
  const LayerWeights& w = layer.weights;
  const LayerPlan& plan = layer.plan;
  const HeadShape& heads = plan.shape.heads;
  const Matrix q = scratch.q.rows(x.rows, heads.query_cols());
  const Matrix k = scratch.k.rows(x.rows, heads.kv_cols());
  const Matrix v = scratch.v.rows(x.rows, heads.kv_cols());
  const Matrix attended = scratch.attended.rows(x.rows, heads.query_cols());
  const Matrix output_gate = scratch.mixer_gate.rows(x.rows, heads.query_cols());

  std::array<MatmulOp, 4> products;
  std::size_t count = 0;
  const auto multiply = [&](const Weight& weight, const Weight& bias, const Matrix& y) {
    if (weight) products[count++] = {.x = input, .weight = weight, .bias = bias, .y = y};
  };
  multiply(w.attn_q, w.attn_q_bias, q);
  multiply(w.attn_k, w.attn_k_bias, k);
  multiply(w.attn_v, w.attn_v_bias, v);
  multiply(w.attn_gate, {}, output_gate);
  normed_products(backend, layer, w.attn_norm, x, input, std::span(products).first(count));
  norm_heads(backend, layer, w.attn_q_norm, q);
  norm_values(backend, layer, k, v);
  norm_heads(backend, layer, w.attn_k_norm, k);
  scratch.positions.clear();
  scratch.stored.clear();
  scratch.attentions.clear();
  for (const SequenceBatch& sequence : sequences) {
    const std::span<const std::uint32_t> positions = sequence.batch.positions;
    scratch.positions.insert(scratch.positions.end(), positions.begin(), positions.end());
  }
  std::uint32_t first = 0;
  for (const SequenceBatch& sequence : sequences) {
    const RowBatch& batch = sequence.batch;
    const auto own = [&](const Matrix& m) { return m.row_range(first, batch.count()); };
    scratch.stored.push_back({.rows = batch.count(),
                              .keys = sequence.keys,
                              .values = sequence.values,
                              .first = batch.first_slot});
    scratch.attentions.push_back(
        {.q = own(q),
         .keys = sequence.keys,
         .values = sequence.values,
         .prefix = batch.prefix,
         .masks = batch.masks,
         .heads = heads,
         .y = own(attended),
         .scale = plan.attention_scale == 0.0f ? heads.score_scale() : plan.attention_scale,
         .window = plan.window,
         .positions = std::span(scratch.positions).subspan(first, batch.count()),
         .sinks = w.attn_sinks});
    first += batch.count();
  }
  EDGEDRAFT_CHECK(first == x.rows);
  if (layer.query_factors) {
    const Matrix factors = scratch.shares.rows(x.rows, 1);
    backend.embed({.table = layer.query_factors, .tokens = scratch.positions, .y = factors});
    backend.gate({.gate = factors, .up = q, .y = q, .activation = Activation::identity});
  }
  if (plan.kv_back != 0) {
    backend.rope({.x = q,
                  .positions = scratch.positions,
                  .cos_sin = layer.cos_sin,
                  .head_dim = heads.head_dim,
                  .rotated = layer.cos_sin.cols,
                  .style = layer.rope_style});
  } else {
    backend.rope_store({.q = q,
                        .k = k,
                        .v = v,
                        .positions = scratch.positions,
                        .cos_sin = layer.cos_sin,
                        .head_dim = heads.head_dim,
                        .rotated = layer.cos_sin.cols,
                        .style = layer.rope_style,
                        .sequences = scratch.stored});
  }
  backend.attentions(scratch.attentions);
  if (w.attn_gate) {
    backend.gate(
        {.gate = output_gate, .up = attended, .y = attended, .activation = Activation::sigmoid});
  }
  const Matrix mixed = sum_of(scratch, w.post_attn_norm, x);
  backend.matmul({.x = attended,
                  .weight = w.attn_output,
                  .bias = w.attn_o_bias,
                  .y = mixed,
                  .into = into_of(w.post_attn_norm)});
  add_normed(backend, layer, w.post_attn_norm, mixed, x);
}

void store_keys(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                const RopeStoreOp::Sequence& rows, std::span<const std::uint32_t> positions) {
  const LayerWeights& w = layer.weights;
  const HeadShape& heads = layer.plan.shape.heads;
  const Matrix input = w.attn_norm ? scratch.normed.rows(x.rows, layer.plan.shape.dim) : x;
  const Matrix k = scratch.k.rows(x.rows, heads.kv_cols());
  const Matrix v = scratch.v.rows(x.rows, heads.kv_cols());
  const std::array products{
      MatmulOp{.x = input, .weight = w.attn_k, .bias = w.attn_k_bias, .y = k},
      MatmulOp{.x = input, .weight = w.attn_v, .bias = w.attn_v_bias, .y = v}};
  normed_products(backend, layer, w.attn_norm, x, input,
                  std::span(products).first(w.attn_v ? 2 : 1));
  norm_values(backend, layer, k, v);
  norm_heads(backend, layer, w.attn_k_norm, k);
  backend.rope({.x = k,
                .positions = positions,
                .cos_sin = layer.cos_sin,
                .head_dim = heads.head_dim,
                .rotated = layer.cos_sin.cols,
                .style = layer.rope_style});
  backend.store({.x = k, .cache = rows.keys, .first = rows.first});
  backend.store({.x = v, .cache = rows.values, .first = rows.first});
}

void delta_net(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
               std::span<const RecurrentRows> convolution, std::span<const RecurrentRows> delta) {
  const LayerWeights& w = layer.weights;
  const LayerPlan& plan = layer.plan;
  const DeltaShape& shape = plan.delta;
  const Matrix input = scratch.normed.rows(x.rows, plan.shape.dim);
  const Matrix qkv = scratch.q.rows(x.rows, shape.mixed_cols());
  const Matrix convolved = scratch.attended.rows(x.rows, shape.mixed_cols());
  const Matrix gate = scratch.mixer_gate.rows(x.rows, shape.value_cols());
  const Matrix alpha = scratch.k.rows(x.rows, shape.value_heads);
  const Matrix beta = scratch.v.rows(x.rows, shape.value_heads);
  normed_products(backend, layer, w.attn_norm, x, input,
                  std::array{MatmulOp{.x = input, .weight = w.delta_qkv, .bias = {}, .y = qkv},
                             MatmulOp{.x = input, .weight = w.delta_gate, .bias = {}, .y = gate},
                             MatmulOp{.x = input, .weight = w.delta_alpha, .bias = {}, .y = alpha},
                             MatmulOp{.x = input, .weight = w.delta_beta, .bias = {}, .y = beta}});
  backend.convolve({.x = qkv,
                    .weight = w.conv_taps,
                    .activation = Activation::silu,
                    .y = convolved,
                    .sequences = convolution});
  const Matrix read = scratch.q.rows(x.rows, shape.value_cols());
  backend.delta_rule({.qkv = convolved,
                      .alpha = alpha,
                      .beta = beta,
                      .decay = w.delta_decay,
                      .time_bias = w.delta_time,
                      .key_heads = shape.key_heads,
                      .value_heads = shape.value_heads,
                      .dim = shape.dim,
                      .epsilon = plan.shape.rms_epsilon,
                      .y = read,
                      .sequences = delta});
  norm_heads(backend, layer, w.delta_norm, read);
  backend.gate_matmul(
      {.gate = gate, .up = read, .y = read, .activation = Activation::silu},
      {.x = read, .weight = w.delta_output, .bias = {}, .y = x, .into = Into::accumulate});
}

void short_convolution(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                       std::span<const RecurrentRows> rows) {
  const LayerWeights& w = layer.weights;
  const std::uint32_t dim = layer.plan.shape.dim;
  const Matrix input = scratch.normed.rows(x.rows, dim);
  const Matrix all = scratch.q.rows(x.rows, 3 * dim);
  const auto third = [&](std::uint32_t i) { return all.column_range(i * dim, dim); };
  const Matrix gated = scratch.attended.rows(x.rows, dim);
  const Matrix convolved = scratch.mixer_gate.rows(x.rows, dim);
  normed_products(backend, layer, w.attn_norm, x, input,
                  std::array{MatmulOp{.x = input, .weight = w.conv_input, .bias = {}, .y = all}});
  backend.gate({.gate = third(0), .up = third(2), .y = gated, .activation = Activation::identity});
  backend.convolve({.x = gated,
                    .weight = w.conv_taps,
                    .activation = Activation::identity,
                    .y = convolved,
                    .sequences = rows});
  backend.gate_matmul(
      {.gate = third(1), .up = convolved, .y = convolved, .activation = Activation::identity},
      {.x = convolved, .weight = w.conv_output, .bias = {}, .y = x, .into = Into::accumulate});
}

namespace {

// The feed-forward of matrices that every row uses.
struct Dense {
  Weight gate;
  Weight up;
  Weight down;
  Weight share;  // [1, dim]: the sigmoid of its product weighs the result; absent: 1
};

void add_dense(Backend& backend, const Layer& layer, LayerScratch& scratch, const Dense& w,
               const Weight& norm, const Matrix& x, const Matrix& normed, const Matrix& y,
               Into into) {
  const Matrix gate = scratch.gate.rows(x.rows, w.gate.rows);
  const Matrix up = scratch.up.rows(x.rows, w.gate.rows);
  const Matrix share = scratch.shares.rows(x.rows, 1);
  std::array products{MatmulOp{.x = normed, .weight = w.gate, .bias = {}, .y = gate},
                      MatmulOp{.x = normed, .weight = w.up, .bias = {}, .y = up},
                      MatmulOp{.x = normed, .weight = w.share, .bias = {}, .y = share}};
  normed_products(backend, layer, norm, x, normed, std::span(products).first(w.share ? 3 : 2));
  const GateOp gated{.gate = gate, .up = up, .y = gate, .activation = layer.plan.activation};
  const MatmulOp down{.x = gate, .weight = w.down, .bias = {}, .y = y, .into = into};
  if (!w.share) {
    backend.gate_matmul(gated, down);
    return;
  }
  backend.gate(gated);
  backend.gate_matmul({.gate = share, .up = gate, .y = gate, .activation = Activation::sigmoid},
                      down);
}

// Chooses experts by the router's products of `input`. Returns the choice and its weights.
std::pair<Matrix, Matrix> choose_experts(Backend& backend, const Layer& layer,
                                         LayerScratch& scratch, const Matrix& input) {
  const LayerWeights& w = layer.weights;
  const ExpertShape& shape = layer.plan.experts;
  const Matrix logits = scratch.routed.rows(input.rows, shape.count);
  const Matrix experts = scratch.experts.rows(input.rows, shape.used);
  const Matrix shares = scratch.shares.rows(input.rows, shape.used);
  backend.matmul({.x = input, .weight = w.router, .bias = w.router_bias, .y = logits});
  backend.route({.logits = logits, .used = shape.used, .experts = experts, .weights = shares});
  if (!w.experts_scale) return {experts, shares};
  const std::uint32_t pairs = input.rows * shape.used;
  backend.expert_matmul({.x = scratch.shares.rows(pairs, 1),
                         .weight = w.experts_scale,
                         .bias = {},
                         .experts = experts,
                         .y = scratch.k.rows(pairs, 1)});
  return {experts, scratch.k.rows(input.rows, shape.used)};
}

// y += the weighted sum of the chosen experts' results.
void mix_experts(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& normed,
                 const Matrix& experts, const Matrix& shares, const Matrix& y) {
  const LayerWeights& w = layer.weights;
  const ExpertShape& shape = layer.plan.experts;
  const std::uint32_t pairs = normed.rows * shape.used;
  const Matrix gate = scratch.gate.rows(pairs, shape.ffn_dim);
  const Matrix up = scratch.up.rows(pairs, shape.ffn_dim);
  const Matrix mixed = scratch.mixed.rows(pairs, normed.cols);
  backend.expert_matmul({.x = normed,
                         .weight = w.experts_gate,
                         .bias = w.experts_gate_bias,
                         .experts = experts,
                         .y = gate});
  backend.expert_matmul({.x = normed,
                         .weight = w.experts_up,
                         .bias = w.experts_up_bias,
                         .experts = experts,
                         .y = up});
  backend.gate({.gate = gate, .up = up, .y = gate, .activation = layer.plan.activation});
  backend.expert_matmul({.x = gate,
                         .weight = w.experts_down,
                         .bias = w.experts_down_bias,
                         .experts = experts,
                         .y = mixed});
  backend.mix({.x = mixed, .weights = shares, .y = y});
}

void add_experts(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x) {
  const LayerWeights& w = layer.weights;
  const Matrix normed = scratch.normed.rows(x.rows, x.cols);
  backend.rms_norm(
      {.x = x, .weight = w.ffn_norm, .y = normed, .epsilon = layer.plan.shape.rms_epsilon});
  const auto [experts, shares] = choose_experts(backend, layer, scratch, normed);
  mix_experts(backend, layer, scratch, normed, experts, shares, x);
  if (!w.shared_down) return;
  add_dense(backend, layer, scratch,
            {.gate = w.shared_gate, .up = w.shared_up, .down = w.shared_down, .share = w.share}, {},
            normed, normed, x, Into::accumulate);
}

// Source    Gemma 4: x += N(N1(dense(N(x))) + N2(experts(N3(x)))), where the router reads another
//           norm of x, divided by the root of its width
void add_dense_and_experts(Backend& backend, const Layer& layer, LayerScratch& scratch,
                           const Matrix& x) {
  const LayerWeights& w = layer.weights;
  const float epsilon = layer.plan.shape.rms_epsilon;
  const Matrix normed = scratch.normed.rows(x.rows, x.cols);
  const Matrix sum = scratch.attended.rows(x.rows, x.cols);
  const Matrix mixed = scratch.q.rows(x.rows, x.cols);
  const Matrix zeros = scratch.zeros.rows(x.rows, x.cols);
  add_dense(backend, layer, scratch,
            {.gate = w.ffn_gate, .up = w.ffn_up, .down = w.ffn_down, .share = {}}, w.ffn_norm, x,
            normed, sum, Into::overwrite);
  backend.rms_norm({.x = sum, .weight = w.post_dense_norm, .y = sum, .epsilon = epsilon});
  backend.rms_norm({.x = x, .weight = w.router_norm, .y = normed, .epsilon = epsilon});
  backend.scale({.x = normed, .factor = 1.0f / std::sqrt(static_cast<float>(x.cols))});
  const auto [experts, shares] = choose_experts(backend, layer, scratch, normed);
  backend.rms_norm({.x = x, .weight = w.experts_norm, .y = normed, .epsilon = epsilon});
  backend.gate({.gate = zeros, .up = zeros, .y = mixed, .activation = Activation::identity});
  mix_experts(backend, layer, scratch, normed, experts, shares, mixed);
  add_normed(backend, layer, w.post_experts_norm, mixed, sum);
  add_normed(backend, layer, w.post_ffn_norm, sum, x);
}

}  // namespace

void feed_forward(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x) {
  const LayerWeights& w = layer.weights;
  if (layer.plan.experts.beside_dense) {
    add_dense_and_experts(backend, layer, scratch, x);
    return;
  }
  if (layer.plan.experts.count > 0) {
    add_experts(backend, layer, scratch, x);
    return;
  }
  const Matrix normed = scratch.normed.rows(x.rows, x.cols);
  const Matrix y = sum_of(scratch, w.post_ffn_norm, x);
  add_dense(backend, layer, scratch,
            {.gate = w.ffn_gate, .up = w.ffn_up, .down = w.ffn_down, .share = {}}, w.ffn_norm, x,
            normed, y, into_of(w.post_ffn_norm));
  add_normed(backend, layer, w.post_ffn_norm, y, x);
}

void finish_layer(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                  const Matrix& e) {
  const LayerWeights& w = layer.weights;
  if (w.embd_gate) {
    const Matrix gate = scratch.gate.rows(x.rows, e.cols);
    const Matrix added = sum_of(scratch, w.post_embd_norm, x);
    backend.matmul({.x = x, .weight = w.embd_gate, .bias = {}, .y = gate});
    backend.gate_matmul({.gate = gate, .up = e, .y = gate, .activation = layer.plan.activation},
                        {.x = gate,
                         .weight = w.embd_output,
                         .bias = {},
                         .y = added,
                         .into = into_of(w.post_embd_norm)});
    add_normed(backend, layer, w.post_embd_norm, added, x);
  }
  if (layer.output_scale != 1.0f) backend.scale({.x = x, .factor = layer.output_scale});
}

OwnedMatrix make_rope_table(Backend& backend, const RopeConfig& rope, std::uint32_t head_dim,
                            std::uint32_t position_count) {
  const std::uint32_t rotated = rope.rotated_of(head_dim);
  OwnedMatrix table(backend, position_count, rotated);
  if (!backend.keeps_numbers()) return table;
  const bool is_long = !rope.long_divisors.empty() && position_count > rope.long_after;
  const std::vector<float>& divisors = is_long ? rope.long_divisors : rope.frequency_divisors;
  // float32 frequencies and angles, as in the reference implementations, to agree at long
  // positions.
  const std::uint32_t half = rotated / 2;
  std::vector<float> frequencies(half);
  for (std::uint32_t i = 0; i < half; ++i) {
    frequencies[i] =
        1.0f / std::pow(rope.theta, static_cast<float>(2 * i) / static_cast<float>(rotated));
    if (!divisors.empty()) frequencies[i] /= divisors[i];
  }
  // The context length comes from files and options, so bound the memory on the host.
  std::vector<float> part(std::size_t{std::min(kTablePart, position_count)} * rotated);
  for (std::uint32_t first = 0; first < position_count; first += kTablePart) {
    const std::uint32_t count = std::min(kTablePart, position_count - first);
    for (std::uint32_t p = 0; p < count; ++p) {
      float* row = &part[std::size_t{p} * rotated];
      for (std::uint32_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(first + p) * frequencies[i];
        row[i] = rope.magnitude * std::cos(angle);
        row[half + i] = rope.magnitude * std::sin(angle);
      }
    }
    backend.write(table.all().row_range(first, count),
                  std::span(part).first(std::size_t{count} * rotated));
  }
  return table;
}

}  // namespace edgedraft
