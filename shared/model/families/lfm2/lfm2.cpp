#include <algorithm>

#include "shared/model/families/family.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::string_view kLfm2Keys[] = {"attention.head_count_kv"};

void plan_lfm2(PlanKeys& keys, DecoderConfig& config) {
  const auto kv_heads = keys.counts("attention.head_count_kv", config.layer_count, kWidthMax);
  const std::uint32_t taps = keys.count("shortconv.l_cache", kTapsMax);
  if (taps < 2) keys.refuse("shortconv.l_cache", " is 1; a convolution has two taps or more");
  config.layers.assign(config.layer_count, {.shape = config.layer});
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    LayerPlan& plan = config.layers[i];
    plan.shape.heads.kv_heads = kv_heads[i];
    if (kv_heads[i] != 0 && kv_heads[i] != config.layer.heads.kv_heads) {
      keys.refuse("attention.head_count_kv", ": layers of different sizes are not supported");
    }
    if (kv_heads[i] != 0) continue;
    plan.mixer = Mixer::convolution;
    plan.taps = taps;
  }
}

void lfm2_layer(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const std::uint32_t dim = plan.shape.dim;
  if (plan.mixer == Mixer::attention) {
    list.attention(plan);
    list.head_norms(plan);
  } else {
    list.vector("attn_norm.weight", "", &L::attn_norm, dim);
    list.matrix("shortconv.in_proj.weight", "", &L::conv_input, 3 * dim, dim);
    list.vector("shortconv.conv.weight", "", &L::conv_taps, plan.taps).rows = dim;
    list.matrix("shortconv.out_proj.weight", "", &L::conv_output, dim, dim);
  }
  list.ffn_norm(plan);
  list.dense(plan);
}

}  // namespace

// LFM2: most layers are gated short convolutions.
extern const Family kLfm2;
const Family kLfm2 = {.architecture = "lfm2",
                      .keys = kLfm2Keys,
                      .output_norm = "token_embd_norm.weight",
                      .plan = plan_lfm2,
                      .tensors = lfm2_layer};

}  // namespace edgedraft
