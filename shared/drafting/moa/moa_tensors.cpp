#include "shared/drafting/moa/moa_tensors.h"

#include <string>
#include <utility>

#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

struct LayerConfig {
  LayerShape& shape;
  RopeConfig& rope;
  std::string_view prefix;
  std::string_view tensor_prefix;
};

Result<void> check_config(const MoaConfig& config) {
  if (config.self_attention.dim != config.target_layer.dim ||
      config.cross_attention.dim != config.target_layer.dim) {
    return bad_file("the drafter's layers differ in width from the target's");
  }
  if (config.layer_self_attention.dim != 2 * config.target_layer.heads.kv_cols()) {
    return bad_file("the drafter's LSA differs in width from the target's keys and values");
  }
  if (config.tli > config.target_layer_count) {
    return bad_file("edgedraft.tli exceeds the target's number of layers");
  }
  return {};
}

Result<LayerTensors> read_normed_layer(const GgufFile& file, const std::string& prefix,
                                       const LayerShape& shape) {
  auto layer = read_layer_tensors(file, prefix, shape);
  if (layer && !layer->attn_norm.present()) return missing_tensor(prefix + "attn_norm.weight");
  return layer;
}

}  // namespace

std::string_view to_string(CutPoint cut) {
  return cut == CutPoint::lsa_mean ? "lsa_mean" : "ca_kv";
}

MoaRowLayout moa_row_layout(const HeadShape& target, const HeadShape& ca, std::uint32_t tli) {
  MoaRowLayout layout{.cut = CutPoint::lsa_mean,
                      .memory_cols = 2 * target.kv_cols(),
                      .tli_layer_cols = 2 * target.kv_cols(),
                      .tli = tli,
                      .scale_groups = {}};
  if (ca.kv_cols() < target.kv_cols()) {
    layout.cut = CutPoint::ca_kv;
    layout.memory_cols = 2 * ca.kv_cols();
    // The scale of keys and values varies between heads.
    layout.scale_groups.assign(2 * ca.kv_heads, ca.head_dim);
  } else {
    layout.scale_groups.assign(1, layout.memory_cols);
  }
  layout.scale_groups.insert(layout.scale_groups.end(), std::size_t{2} * target.kv_heads * tli,
                             target.head_dim);
  return layout;
}

MoaRowLayout moa_row_layout(const MoaConfig& config) {
  return moa_row_layout(config.target_layer.heads, config.cross_attention.heads, config.tli);
}

Result<MoaConfig> read_moa_config(const GgufFile& file) {
  MoaConfig config;
  if (auto read = read_bundle_config(file, kMoaArchitecture, config); !read) return read.error();
  const LayerConfig layers[] = {
      {config.self_attention, config.sa_rope, moa_keys::kSa, "sa."},
      {config.cross_attention, config.ca_rope, moa_keys::kCa, "ca."},
      {config.layer_self_attention, config.lsa_rope, moa_keys::kLsa, "lsa."},
      {config.target_layer, config.target_rope, moa_keys::kTarget, "target."},
  };
  for (const LayerConfig& layer : layers) {
    auto read = read_bundle_layer(file, layer.prefix, layer.tensor_prefix);
    if (!read) return read.error();
    layer.shape = read->shape;
    layer.rope = std::move(read->rope);
  }
  const auto tli = file.get_u32(moa_keys::kTli);
  if (!tli) return tli.error();
  config.tli = *tli;
  const auto epsilon = read_bundle_epsilon(file, moa_keys::kOutputNormEpsilon);
  if (!epsilon) return epsilon.error();
  config.output_norm_epsilon = *epsilon;

  if (auto read = read_bundle_vocabulary(file, config.target_layer.dim, config); !read)
    return read.error();
  if (auto checked = check_config(config); !checked) return checked.error();
  return config;
}

Result<MoaTensors> read_moa_tensors(const GgufFile& file, const MoaConfig& config) {
  const std::uint32_t dim = config.target_layer.dim;
  MoaTensors tensors;
  TensorReader reader(file, "");
  reader.matrix("token_embd.weight", config.vocabulary_count, dim, tensors.token_embd);
  if (file.find_tensor("output.weight") != nullptr || !config.draft_tokens.empty()) {
    reader.matrix("output.weight", config.head_rows(), dim, tensors.output.emplace());
  }
  reader.vector("output_norm.weight", dim, tensors.output_norm);
  reader.matrix("ekv2e.weight", dim, config.layer_self_attention.dim, tensors.ekv2e);
  reader.vector("ekv2e.bias", dim, tensors.ekv2e_bias);
  if (reader.error()) return *reader.error();

  const struct {
    const char* prefix;
    const LayerShape& shape;
    LayerTensors& out;
  } layers[] = {
      {"sa.", config.self_attention, tensors.self_attention},
      {"ca.", config.cross_attention, tensors.cross_attention},
      {"lsa.", config.layer_self_attention, tensors.layer_self_attention},
  };
  for (const auto& layer : layers) {
    auto read = read_normed_layer(file, layer.prefix, layer.shape);
    if (!read) return read.error();
    layer.out = *read;
  }
  for (std::uint32_t i = 0; i < config.tli; ++i) {
    auto layer = read_normed_layer(file, "tli." + std::to_string(i) + ".", config.target_layer);
    if (!layer) return layer.error();
    tensors.tli.push_back(*layer);
  }
  return tensors;
}

Result<MoaModel> read_moa(const GgufFile& file) {
  auto config = read_moa_config(file);
  if (!config) return config.error();
  auto tensors = read_moa_tensors(file, *config);
  if (!tensors) return tensors.error();
  // Check now: the layers in the file bound the number of groups.
  if (auto row = check_row(moa_row_layout(*config).scale_groups); !row) return row.error();
  return MoaModel{std::move(*config), std::move(*tensors)};
}

}  // namespace edgedraft
