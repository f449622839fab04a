#include "tests/support/toy_feature_drafters.h"

namespace edgedraft::testing {

ToyEagle::ToyEagle(const ToyDecoder& target, std::uint64_t seed)
    : pool(std::make_shared<TensorPool>(seed)) {
  const std::uint32_t dim = target.config.layer.dim;
  config.vocabulary_count = target.config.vocabulary_count;
  config.context_length = target.config.context_length;
  config.layer = {.dim = dim,
                  .heads = {.query_heads = 4, .kv_heads = 2, .head_dim = 8},
                  .ffn_dim = 24,
                  .rms_epsilon = 1e-5f};
  config.target_layer_count = target.config.layer_count;
  tensors.token_embd = target.tensors.token_embd;
  tensors.output = target.tensors.output;
  tensors.fc_embedding = pool->normal(dim, dim, 0.2);
  // Small, so that features stay finite over many steps.
  tensors.fc_feature = pool->normal(dim, dim, 0.08);
  tensors.fc_bias = pool->normal(1, dim, 0.1);
  tensors.layer = pool->layer(config.layer);
  tensors.layer.attn_norm = {};
  tensors.layer.attn_output = pool->normal(dim, config.layer.heads.query_cols(), 0.05);
}

ToyMtp::ToyMtp(const ToyDecoder& target, std::uint64_t seed)
    : pool(std::make_shared<TensorPool>(seed)) {
  constexpr std::uint32_t kExperts = 4;
  constexpr std::uint32_t kExpertDim = 16;
  const std::uint32_t dim = target.config.layer.dim;
  const HeadShape heads{.query_heads = 4, .kv_heads = 2, .head_dim = 8};
  model.sizes = {.vocabulary_count = target.config.vocabulary_count,
                 .context_length = target.config.context_length,
                 .target_layer_count = target.config.layer_count};
  model.plan = {.shape = {.dim = dim, .heads = heads, .ffn_dim = 24}, .output_gate = true};
  model.rope = {.rotated = 4};
  model.has_first = true;
  model.token_embd = target.tensors.token_embd;
  model.output = target.tensors.output;
  model.embedding_norm = pool->norm(dim);
  model.feature_norm = pool->norm(dim);
  model.fc_embedding = pool->normal(dim, dim, 0.2);
  model.fc_feature = pool->normal(dim, dim, 0.2);
  model.output_norm = pool->norm(dim);
  LayerTensors& layer = model.layer;
  layer = pool->layer(model.plan.shape);
  layer.attn_gate = pool->normal(heads.query_cols(), dim, 0.3);
  layer.attn_q_norm = pool->norm(heads.head_dim);
  layer.attn_k_norm = pool->norm(heads.head_dim);
  model.plan.shape.ffn_dim = 0;
  model.plan.experts = {.count = kExperts, .used = 2, .ffn_dim = kExpertDim};
  layer.ffn_gate = layer.ffn_up = layer.ffn_down = {};
  layer.router = pool->normal(kExperts, dim, 0.3);
  layer.experts_gate = pool->normal(kExperts * kExpertDim, dim, 0.3);
  layer.experts_up = pool->normal(kExperts * kExpertDim, dim, 0.3);
  layer.experts_down = pool->normal(kExperts * dim, kExpertDim, 0.3);
  for (TensorView* experts : {&layer.experts_gate, &layer.experts_up, &layer.experts_down}) {
    experts->experts = kExperts;
  }
}

ToyEagle3::ToyEagle3(const DecoderConfig& target, std::uint64_t seed)
    : pool(std::make_shared<TensorPool>(seed)) {
  constexpr std::uint32_t kDim = 48;
  const LayerShape shape{.dim = kDim,
                         .heads = {.query_heads = 4, .kv_heads = 2, .head_dim = 8},
                         .ffn_dim = 24,
                         .rms_epsilon = 1e-5f};
  FeatureModel& network = model.network;
  network.sizes = {.vocabulary_count = target.vocabulary_count,
                   .context_length = target.context_length,
                   .target_layer_count = target.layer_count};
  network.plan = {.shape = shape};
  network.is_joined = true;
  network.token_embd = pool->normal(target.vocabulary_count, kDim, 0.5);
  network.output = pool->normal(target.vocabulary_count, kDim, 0.5);
  network.embedding_norm = pool->norm(kDim);
  network.feature_norm = pool->norm(kDim);
  network.head_norm = pool->norm(kDim);
  network.layer = pool->layer(shape);
  network.layer.attn_norm = {};
  network.layer.attn_q = pool->normal(shape.heads.query_cols(), 2 * kDim, 0.2);
  network.layer.attn_k = pool->normal(shape.heads.kv_cols(), 2 * kDim, 0.2);
  network.layer.attn_v = pool->normal(shape.heads.kv_cols(), 2 * kDim, 0.2);
  StateFusion& projection = model.projection;
  projection.states = {1, 2, 3};
  projection.target_dim = target.layer.dim;
  projection.rms_epsilon = shape.rms_epsilon;
  projection.fc = pool->normal(kDim, projection.cols(), 0.1);
  projection.norm_before = pool->norm(projection.cols());
}

ToyMedusa::ToyMedusa(const ToyDecoder& target, std::uint64_t seed, HeadOutputs outputs,
                     std::uint32_t heads)
    : pool(std::make_shared<TensorPool>(seed)) {
  const std::uint32_t dim = target.config.layer.dim;
  config.vocabulary_count = target.config.vocabulary_count;
  config.context_length = target.config.context_length;
  config.dim = dim;
  config.target_layer_count = target.config.layer_count;
  config.head_count = heads;
  for (std::uint32_t k = 0; k < heads; ++k) {
    MedusaTensors::Head& head = tensors.heads.emplace_back();
    head.weight = pool->normal(dim, dim, 0.3);
    head.bias = pool->normal(1, dim, 0.1);
    if (outputs == HeadOutputs::own) head.output = pool->normal(kToyVocabulary, dim, 0.5);
  }
  if (outputs == HeadOutputs::shared) tensors.output = target.tensors.output;
}

ToyMultistream::ToyMultistream(const ToyDecoder& target, std::uint64_t seed)
    : pool(std::make_shared<TensorPool>(seed)) {
  constexpr std::uint32_t kRank = 4;
  config.vocabulary_count = target.config.vocabulary_count;
  config.context_length = target.config.context_length;
  config.target_layer_count = target.config.layer_count;
  config.stream_count = 4;
  config.layer_count = 2;
  config.layer = target.config.layer;
  config.layer.ffn_dim = kRank;
  config.rope = target.config.rope;
  const std::uint32_t dim = config.layer.dim;
  tensors.layers.assign(target.tensors.layers.end() - 2, target.tensors.layers.end());
  for (LayerTensors& layer : tensors.layers) {
    layer.ffn_gate = layer.ffn_up = layer.ffn_down = {};
    tensors.adapters.push_back(
        {.down = pool->normal(kRank, dim, 0.3), .up = pool->normal(dim, kRank, 0.3)});
  }
  for (std::uint32_t j = 0; j < config.stream_count; ++j) {
    tensors.embeddings.push_back(pool->normal(1, dim, 0.3));
  }
  tensors.output_norm = target.tensors.output_norm;
  tensors.output = target.tensors.output.value_or(target.tensors.token_embd);
}

}  // namespace edgedraft::testing
