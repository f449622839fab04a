#include "shared/model/families/family.h"
#include "shared/model/families/hf_keys.h"

namespace edgedraft {
namespace {

constexpr std::string_view kGptOssHf[] = {"GptOssForCausalLM"};
constexpr std::string_view kGptOssKeys[] = {"expert_count", "attention.sliding_window"};

void plan_gpt_oss(PlanKeys& keys, DecoderConfig& config) {
  const std::uint32_t window = keys.count("attention.sliding_window", 0x7FFFFFFFu);
  config.layers.assign(
      config.layer_count,
      {.shape = config.layer, .activation = Activation::clamped, .experts = read_experts(keys)});
  for (std::uint32_t i = 0; i < config.layer_count; i += 2) config.layers[i].window = window;
}

// Hugging Face alternates rows of gate and up, in MXFP4 or, transposed, in another type.
void set_expert_sources(std::uint32_t ffn_dim, LayerList& list) {
  using L = LayerTensors;
  const auto half = [&](std::uint32_t first) {
    return SourceOrder{.stored = 2 * ffn_dim, .first = first, .outer = ffn_dim, .inner = 2};
  };
  const auto set = [&](LayerTensor& tensor, const SourceOrder& rows) {
    tensor.hf = {.name = "mlp.experts.gate_up_proj_blocks",
                 .scales = "mlp.experts.gate_up_proj_scales",
                 .layout = {.rows = rows}};
    tensor.hf_else = {.name = "mlp.experts.gate_up_proj",
                      .layout = {.rows = rows, .transposed = true}};
  };
  set(list.of(&L::experts_gate), half(0));
  set(list.of(&L::experts_up), half(ffn_dim));
  list.of(&L::experts_gate_bias).hf.layout.cols = half(0);
  list.of(&L::experts_up_bias).hf.layout.cols = half(ffn_dim);
  LayerTensor& down = list.of(&L::experts_down);
  down.hf = {.name = "mlp.experts.down_proj_blocks", .scales = "mlp.experts.down_proj_scales"};
  down.hf_else = {.name = "mlp.experts.down_proj", .layout = {.transposed = true}};
}

void gpt_oss_layer(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const ExpertShape& experts = plan.experts;
  const std::uint32_t dim = plan.shape.dim;
  const auto of_experts = [&](std::string_view name, std::string_view hf, LayerList::Part part,
                              std::uint32_t cols) {
    list.vector(name, hf, part, cols).rows = experts.count;
  };
  list.attention(plan);
  list.vector("attn_output.bias", "self_attn.o_proj.bias", &L::attn_o_bias, dim);
  list.vector("attn_sinks.weight", "self_attn.sinks", &L::attn_sinks, plan.shape.heads.query_heads);
  list.vector("post_attention_norm.weight", "post_attention_layernorm.weight", &L::ffn_norm, dim);
  list.experts(plan);
  list.of(&L::router).hf.name = "mlp.router.weight";
  list.vector("ffn_gate_inp.bias", "mlp.router.bias", &L::router_bias, experts.count);
  of_experts("ffn_gate_exps.bias", "mlp.experts.gate_up_proj_bias", &L::experts_gate_bias,
             experts.ffn_dim);
  of_experts("ffn_up_exps.bias", "mlp.experts.gate_up_proj_bias", &L::experts_up_bias,
             experts.ffn_dim);
  of_experts("ffn_down_exps.bias", "mlp.experts.down_proj_bias", &L::experts_down_bias, dim);
  set_expert_sources(experts.ffn_dim, list);
}

void gpt_oss_hf(HfKeys& keys) {
  keys.count("num_local_experts", "expert_count");
  keys.count("num_experts_per_tok", "expert_used_count");
  keys.count("intermediate_size", "expert_feed_forward_length");
  if (keys.full_attention_period(2) != 2) {
    keys.refuse("layer_types", "not every second layer with full attention");
  }
  if (keys.number_or("swiglu_limit", 7.0) != 7.0) keys.refuse("swiglu_limit", "not 7");
}

}  // namespace

// gpt-oss: windows in every second layer, sinks, biases, clamped experts in MXFP4.
extern const Family kGptOss;
const Family kGptOss = {.architecture = "gpt-oss",
                        .hf_architectures = kGptOssHf,
                        .keys = kGptOssKeys,
                        .plan = plan_gpt_oss,
                        .tensors = gpt_oss_layer,
                        .hf = gpt_oss_hf,
                        .hf_defaults = R"({"rms_norm_eps": 1e-5, "head_dim": 64})"};

}  // namespace edgedraft
