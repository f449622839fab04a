#include "tests/support/toy_models.h"

#include <cmath>
#include <numbers>

#include "shared/base/check.h"

namespace edgedraft::testing {
namespace {

constexpr std::uint32_t kDim = 32;

double normal_draw(Random& random) {
  const double u = 1.0 - random.uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * random.uniform());
}

}  // namespace

TensorView TensorPool::normal(std::uint32_t rows, std::uint32_t cols, double deviation,
                              DType type) {
  const auto bytes_per_row = row_bytes(type, cols);
  EDGEDRAFT_CHECK(bytes_per_row.has_value());
  Bytes& bytes = memory_.emplace_back(*bytes_per_row * rows);
  std::vector<float> row(cols);
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (float& x : row) x = static_cast<float>(deviation * normal_draw(random_));
    quantize_row(type, row, std::span(bytes).subspan(r * *bytes_per_row, *bytes_per_row));
  }
  return {.type = type, .rows = rows, .cols = cols, .bytes = bytes};
}

TensorView TensorPool::norm(std::uint32_t cols) {
  Bytes& bytes = memory_.emplace_back(sizeof(float) * cols);
  for (std::uint32_t i = 0; i < cols; ++i) {
    store_le(&bytes[i * sizeof(float)], static_cast<float>(1.0 + 0.3 * normal_draw(random_)));
  }
  return {.type = DType::f32, .rows = 1, .cols = cols, .bytes = bytes};
}

TensorView TensorPool::rows_of(const TensorView& tensor, const std::vector<std::uint32_t>& rows) {
  const std::size_t row = tensor.bytes.size() / tensor.rows;
  Bytes& bytes = memory_.emplace_back();
  for (const std::uint32_t r : rows) {
    const ByteView source = tensor.bytes.subspan(r * row, row);
    bytes.insert(bytes.end(), source.begin(), source.end());
  }
  return {.type = tensor.type,
          .rows = static_cast<std::uint32_t>(rows.size()),
          .cols = tensor.cols,
          .bytes = bytes};
}

LayerTensors TensorPool::layer(const LayerShape& shape) {
  const double deviation = 1.5 / std::sqrt(static_cast<double>(shape.dim));
  LayerTensors layer;
  layer.attn_norm = norm(shape.dim);
  layer.attn_q = normal(shape.heads.query_cols(), shape.dim, deviation);
  layer.attn_k = normal(shape.heads.kv_cols(), shape.dim, deviation);
  layer.attn_v = normal(shape.heads.kv_cols(), shape.dim, deviation);
  layer.attn_output = normal(shape.dim, shape.heads.query_cols(), deviation);
  layer.ffn_norm = norm(shape.dim);
  layer.ffn_gate = normal(shape.ffn_dim, shape.dim, deviation);
  layer.ffn_up = normal(shape.ffn_dim, shape.dim, deviation);
  layer.ffn_down = normal(shape.dim, shape.ffn_dim, deviation);
  return layer;
}

ToyDecoder::ToyDecoder(std::uint64_t seed, std::uint32_t layers)
    : pool(std::make_shared<TensorPool>(seed)) {
  config.architecture = "llama";
  config.vocabulary_count = kToyVocabulary;
  config.layer_count = layers;
  config.context_length = 256;
  config.layer = {.dim = kDim,
                  .heads = {.query_heads = 4, .kv_heads = 2, .head_dim = 8},
                  .ffn_dim = 48,
                  .rms_epsilon = 1e-5f};
  config.rope.style = seed % 2 == 0 ? RopeStyle::halves : RopeStyle::pairs;
  tensors.token_embd = pool->normal(kToyVocabulary, kDim, 1.0);
  tensors.output_norm = pool->norm(kDim);
  tensors.output = pool->normal(kToyVocabulary, kDim, 0.5);
  for (std::uint32_t i = 0; i < layers; ++i) tensors.layers.push_back(pool->layer(config.layer));
}

ToyMoa::ToyMoa(const ToyDecoder& target, std::uint64_t seed, std::uint32_t tli,
               std::uint32_t ca_kv_heads)
    : pool(std::make_shared<TensorPool>(seed)) {
  const DecoderConfig& t = target.config;
  const std::uint32_t lsa_dim = 2 * t.layer.heads.kv_cols();
  config.vocabulary_count = t.vocabulary_count;
  config.context_length = t.context_length;
  config.self_attention = {.dim = kDim,
                           .heads = {.query_heads = 4, .kv_heads = 2, .head_dim = 8},
                           .ffn_dim = 24,
                           .rms_epsilon = 1e-5f};
  config.cross_attention = config.self_attention;
  config.cross_attention.heads.kv_heads = ca_kv_heads;
  config.layer_self_attention = {
      .dim = lsa_dim,
      .heads = {.query_heads = 4, .kv_heads = 1, .head_dim = lsa_dim / 4},
      .ffn_dim = 24,
      .rms_epsilon = 1e-5f};
  config.target_layer_count = t.layer_count;
  config.target_layer = t.layer;
  config.target_rope = t.rope;
  config.tli = tli;
  config.output_norm_epsilon = t.layer.rms_epsilon;
  tensors.token_embd = target.tensors.token_embd;
  tensors.output = target.tensors.output;
  tensors.output_norm = target.tensors.output_norm;
  tensors.self_attention = pool->layer(config.self_attention);
  tensors.cross_attention = pool->layer(config.cross_attention);
  tensors.layer_self_attention = pool->layer(config.layer_self_attention);
  tensors.ekv2e = pool->normal(kDim, lsa_dim, 0.2);
  tensors.ekv2e_bias = pool->normal(1, kDim, 0.1);
  const auto& layers = target.tensors.layers;
  tensors.tli.assign(layers.end() - tli, layers.end());
}

void reduce_vocabulary(ToyDecoder& drafter, const std::vector<std::uint32_t>& tokens) {
  drafter.config.draft_tokens = tokens;
  drafter.tensors.output = drafter.pool->rows_of(*drafter.tensors.output, tokens);
}

void reduce_vocabulary(ToyMoa& drafter, const std::vector<std::uint32_t>& tokens) {
  drafter.config.draft_tokens = tokens;
  drafter.tensors.output = drafter.pool->rows_of(*drafter.tensors.output, tokens);
}

}  // namespace edgedraft::testing
