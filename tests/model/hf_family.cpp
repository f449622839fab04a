#include "tests/model/hf_family.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <stdexcept>

#include "shared/tensor/dtype.h"

namespace edgedraft::test {
namespace {

using nlohmann::json;
using Floats = std::vector<float>;
using Names = std::map<std::string, std::string>;

Floats floats_of(const GgufTensor& tensor) {
  Floats values;
  Floats row(tensor.cols());
  const std::uint64_t bytes = *row_bytes(tensor.type, tensor.cols());
  for (std::uint64_t r = 0; r < tensor.rows(); ++r) {
    dequantize_row(tensor.type, tensor.bytes.subspan(r * bytes, bytes), row);
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

// Llama's rows: the file has (0, d/2), (1, d/2 + 1) and so on as neighbours.
Floats with_halves(const Floats& pairs, std::size_t heads, std::size_t cols) {
  Floats halves(pairs.size());
  const std::size_t head_dim = pairs.size() / cols / heads;
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t i = 0; i < head_dim; ++i) {
      const std::size_t row = h * head_dim + (i % 2 == 0 ? i / 2 : head_dim / 2 + i / 2);
      const auto from = pairs.begin() + static_cast<std::ptrdiff_t>((h * head_dim + i) * cols);
      std::copy(from, from + static_cast<std::ptrdiff_t>(cols),
                halves.begin() + static_cast<std::ptrdiff_t>(row * cols));
    }
  }
  return halves;
}

// Value heads of `size` elements after `before`: the file has those of key head 0, 1, ... in turn,
// a checkpoint all of key head 0, then all of 1.
void group_value_heads(std::span<float> values, std::size_t before, std::size_t key_heads,
                       std::size_t size) {
  const Floats in_turn(values.begin(), values.end());
  const std::size_t ratio = (values.size() - before) / size / key_heads;
  for (std::size_t key = 0; key < key_heads; ++key) {
    for (std::size_t j = 0; j < ratio; ++j) {
      for (std::size_t i = 0; i < size; ++i) {
        values[before + (key * ratio + j) * size + i] =
            in_turn[before + (j * key_heads + key) * size + i];
      }
    }
  }
}

const Names kLlamaNames = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias"},
    {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.bias", "self_attn.v_proj.bias"},
    {"attn_output.bias", "self_attn.o_proj.bias"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate_inp.weight", "mlp.gate.weight"},
};

// Names that differ from a Llama's.
const std::map<std::string, Names> kOtherNames = {
    {"gemma3",
     {{"post_attention_norm.weight", "post_attention_layernorm.weight"},
      {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
      {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"}}},
    {"phi3",
     {{"attn_qkv.weight", "self_attn.qkv_proj.weight"},
      {"ffn_up.weight", "mlp.gate_up_proj.weight"}}},
    {"gpt-oss",
     {{"post_attention_norm.weight", "post_attention_layernorm.weight"},
      {"attn_sinks.weight", "self_attn.sinks"},
      {"ffn_gate_inp.weight", "mlp.router.weight"},
      {"ffn_gate_inp.bias", "mlp.router.bias"},
      {"ffn_down_exps.bias", "mlp.experts.down_proj_bias"}}},
    {"lfm2",
     {{"attn_norm.weight", "operator_norm.weight"},
      {"attn_output.weight", "self_attn.out_proj.weight"},
      {"attn_q_norm.weight", "self_attn.q_layernorm.weight"},
      {"attn_k_norm.weight", "self_attn.k_layernorm.weight"},
      {"shortconv.in_proj.weight", "conv.in_proj.weight"},
      {"shortconv.conv.weight", "conv.conv.weight"},
      {"shortconv.out_proj.weight", "conv.out_proj.weight"},
      {"ffn_norm.weight", "ffn_norm.weight"},
      {"ffn_gate.weight", "feed_forward.w1.weight"},
      {"ffn_up.weight", "feed_forward.w3.weight"},
      {"ffn_down.weight", "feed_forward.w2.weight"}}},
    {"gemma4",
     {{"post_attention_norm.weight", "post_attention_layernorm.weight"},
      {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
      {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
      {"layer_output_scale.weight", "layer_scalar"},
      {"inp_gate.weight", "per_layer_input_gate.weight"},
      {"proj.weight", "per_layer_projection.weight"},
      {"post_norm.weight", "post_per_layer_input_norm.weight"},
      {"ffn_gate_inp.weight", "router.proj.weight"},
      {"ffn_gate_inp.scale", "router.scale"},
      {"ffn_down_exps.scale", "router.per_expert_scale"},
      {"ffn_gate_up_exps.weight", "experts.gate_up_proj"},
      {"ffn_down_exps.weight", "experts.down_proj"},
      {"pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight"},
      {"post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight"},
      {"post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight"}}},
    {"qwen35",
     {{"post_attention_norm.weight", "post_attention_layernorm.weight"},
      {"attn_qkv.weight", "linear_attn.in_proj_qkv.weight"},
      {"attn_gate.weight", "linear_attn.in_proj_z.weight"},
      {"ssm_conv1d.weight", "linear_attn.conv1d.weight"},
      {"ssm_alpha.weight", "linear_attn.in_proj_a.weight"},
      {"ssm_beta.weight", "linear_attn.in_proj_b.weight"},
      {"ssm_dt.bias", "linear_attn.dt_bias"},
      {"ssm_a", "linear_attn.A_log"},
      {"ssm_norm.weight", "linear_attn.norm.weight"},
      {"ssm_out.weight", "linear_attn.out_proj.weight"},
      {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
      {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"},
      {"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"},
      {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"}}},
};

// Tensors outside the layers.
const Names kModelNames = {
    {"per_layer_token_embd.weight", "embed_tokens_per_layer.weight"},
    {"per_layer_model_proj.weight", "per_layer_model_projection.weight"},
    {"per_layer_proj_norm.weight", "per_layer_projection_norm.weight"},
};

const Names kMtpNames = {
    {"nextn.eh_proj.weight", "mtp.fc.weight"},
    {"nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight"},
    {"nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight"},
};

class Inverse {
 public:
  Inverse(const GgufFile& file, const HfVariant& variant)
      : file_(file), variant_(variant), architecture_(*file.architecture()), names_(kLlamaNames) {
    kind_ = architecture_ == "qwen35moe" ? "qwen35" : architecture_;
    const auto others = kOtherNames.find(kind_);
    if (others == kOtherNames.end()) return;
    for (const auto& [name, hf] : others->second) names_[name] = hf;
  }

  HfCheckpoint checkpoint() {
    for (const GgufTensor& tensor : file_.tensors()) add(tensor);
    add_config();
    return std::move(out_);
  }

 private:
  std::uint32_t number(const std::string& key) const {
    return file_.get_u32(architecture_ + "." + key).value();
  }
  double real(const std::string& key) const {
    return file_.get_f32(architecture_ + "." + key).value();
  }
  std::string root() const { return variant_.with_images ? "model.language_model." : "model."; }

  void add(const GgufTensor& tensor) {
    const std::string name(tensor.name);
    HfCheckpoint::Shape shape(tensor.dims.rbegin(), tensor.dims.rend());
    Floats values = floats_of(tensor);
    const bool has_one = kind_ == "gemma3" || kind_ == "qwen35";
    if (has_one && name.ends_with("norm.weight") && !name.ends_with("ssm_norm.weight")) {
      for (float& value : values) value -= 1.0f;
    }
    if (name.starts_with("rope_f")) return;  // in config.json
    if (name == "token_embd.weight") {
      out_.add(root() + "embed_tokens.weight", shape, values);
    } else if (name == "output.weight") {
      out_.add("lm_head.weight", shape, values);
    } else if (const auto found = kModelNames.find(name); found != kModelNames.end()) {
      out_.add(root() + found->second, shape, values);
    } else if (!name.starts_with("blk.")) {
      out_.add(root() + (kind_ == "lfm2" ? "embedding_norm.weight" : "norm.weight"), shape, values);
    } else {
      const std::size_t dot = name.find('.', 4);
      add_layer_tensor(tensor, name.substr(4, dot - 4), name.substr(dot + 1), shape, values);
    }
  }

  void add_layer_tensor(const GgufTensor& tensor, const std::string& layer, const std::string& part,
                        HfCheckpoint::Shape shape, Floats& values) {
    if (const auto mtp = kMtpNames.find(part); mtp != kMtpNames.end()) {
      out_.add(mtp->second, shape, values);
      return;
    }
    const bool is_mtp = kind_ == "qwen35" && std::stoul(layer) == number("block_count") - 1;
    const std::string prefix = is_mtp ? "mtp.layers.0." : root() + "layers." + layer + ".";
    if (part.find("_exps.") != std::string::npos && kind_ != "gemma4") {
      if (kind_ == "gpt-oss") {
        add_gpt_oss_experts(tensor, layer, part, prefix);
      } else {
        add_experts(tensor, layer, part, prefix);
      }
      if (!part.starts_with("ffn_down_exps.bias")) return;
    }
    if (part == "ffn_gate_inp_shexp.weight") shape.insert(shape.begin(), 1);
    if (part == "shortconv.conv.weight" || part == "ssm_conv1d.weight") {
      shape.insert(shape.begin() + 1, 1);
    }
    if (kind_ == "smollm3" || kind_ == "llama" || kind_ == "mistral3") {
      if (part == "attn_q.weight") {
        values = with_halves(values, number("attention.head_count"), tensor.cols());
      }
      if (part == "attn_k.weight") {
        values = with_halves(values, number("attention.head_count_kv"), tensor.cols());
      }
    }
    if (kind_ == "qwen35") group_heads(part, tensor.cols(), values);
    out_.add(prefix + names_.at(part), shape, values);
  }

  void group_heads(const std::string& part, std::size_t cols, Floats& values) {
    const std::size_t keys = number("ssm.group_count");
    const std::size_t size = number("ssm.state_size");
    if (part == "attn_qkv.weight" || part == "ssm_conv1d.weight") {
      group_value_heads(values, 2 * keys * size * cols, keys, size * cols);
    } else if (part == "attn_gate.weight") {
      group_value_heads(values, 0, keys, size * cols);
    } else if (part == "ssm_alpha.weight" || part == "ssm_beta.weight") {
      group_value_heads(values, 0, keys, cols);
    } else if (part == "ssm_dt.bias" || part == "ssm_a") {
      group_value_heads(values, 0, keys, 1);
    } else if (part == "ssm_out.weight") {
      for (std::size_t at = 0; at < values.size(); at += cols) {
        group_value_heads(std::span(values).subspan(at, cols), 0, keys, size);
      }
    }
    if (part != "ssm_a") return;
    for (float& value : values) value = std::log(-value);
  }

  Floats layer_floats(const std::string& layer, const std::string& part) const {
    return floats_of(*file_.find_tensor("blk." + layer + "." + part));
  }

  // Qwen's experts: a tensor for each, or all in one, with an expert's gate before its up.
  void add_experts(const GgufTensor& tensor, const std::string& layer, const std::string& part,
                   const std::string& prefix) {
    const std::uint64_t cols = tensor.dims[0];
    const std::uint64_t rows = tensor.dims[1];
    const std::uint64_t experts = tensor.dims[2];
    const std::uint64_t size = rows * cols;
    const Floats values = floats_of(tensor);
    if (!variant_.joined_experts) {
      const std::string name = part.substr(4, part.find("_exps") - 4) + "_proj.weight";
      for (std::uint64_t e = 0; e < experts; ++e) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(e * size);
        out_.add(prefix + "mlp.experts." + std::to_string(e) + "." + name, {rows, cols},
                 Floats(begin, begin + static_cast<std::ptrdiff_t>(size)));
      }
    } else if (part == "ffn_down_exps.weight") {
      out_.add(prefix + "mlp.experts.down_proj", {experts, rows, cols}, values);
    } else if (part == "ffn_gate_exps.weight") {
      const Floats ups = layer_floats(layer, "ffn_up_exps.weight");
      Floats joined;
      for (std::uint64_t e = 0; e < experts; ++e) {
        for (const Floats* half : {&values, &ups}) {
          const auto begin = half->begin() + static_cast<std::ptrdiff_t>(e * size);
          joined.insert(joined.end(), begin, begin + static_cast<std::ptrdiff_t>(size));
        }
      }
      out_.add(prefix + "mlp.experts.gate_up_proj", {experts, 2 * rows, cols}, joined);
    }
  }

  // gpt-oss: rows of gate and up alternate.
  void add_gpt_oss_experts(const GgufTensor& tensor, const std::string& layer,
                           const std::string& part, const std::string& prefix) {
    const std::string experts = prefix + "mlp.experts.";
    if (part == "ffn_gate_exps.bias") {
      const Floats gates = floats_of(tensor);
      const Floats ups = layer_floats(layer, "ffn_up_exps.bias");
      Floats both;
      for (std::size_t i = 0; i < gates.size(); ++i) both.insert(both.end(), {gates[i], ups[i]});
      out_.add(experts + "gate_up_proj_bias", {tensor.dims[1], 2 * tensor.dims[0]}, both);
    } else if (part == "ffn_gate_exps.weight") {
      const GgufTensor* const up = file_.find_tensor("blk." + layer + ".ffn_up_exps.weight");
      add_matrices(experts + "gate_up_proj", {&tensor, up});
    } else if (part == "ffn_down_exps.weight") {
      add_matrices(experts + "down_proj", {&tensor});
    }
  }

  // Alternates rows of `from`, in MXFP4 or transposed.
  void add_matrices(const std::string& name, const std::vector<const GgufTensor*>& from) {
    const std::uint64_t cols = from[0]->dims[0];
    const std::uint64_t rows = from[0]->dims[1] * from.size();
    const std::uint64_t experts = from[0]->dims[2];
    if (variant_.plain_experts) {
      Floats values(experts * rows * cols);
      for (std::size_t t = 0; t < from.size(); ++t) {
        const Floats part = floats_of(*from[t]);
        for (std::size_t i = 0; i < part.size(); ++i) {
          const std::size_t row = i / cols % from[0]->dims[1] * from.size() + t;
          const std::size_t expert = i / cols / from[0]->dims[1];
          values[(expert * cols + i % cols) * rows + row] = part[i];
        }
      }
      out_.add(name, {experts, cols, rows}, values);
      return;
    }
    constexpr std::size_t kBlock = 17;
    Bytes codes;
    Bytes scales;
    for (std::uint64_t row = 0; row < experts * rows; ++row) {
      const GgufTensor& source = *from[row % from.size()];
      const std::uint64_t bytes = cols / 32 * kBlock;
      const ByteView blocks = source.bytes.subspan(row / from.size() * bytes, bytes);
      for (std::size_t at = 0; at < bytes; at += kBlock) {
        scales.push_back(blocks[at]);
        // The file's byte i has elements i and i + 16, the checkpoint's 2 i and 2 i + 1.
        const auto element = [&](std::size_t i) {
          return blocks[at + 1 + i % 16] >> (i < 16 ? 0 : 4) & std::byte{15};
        };
        for (std::size_t i = 0; i < 32; i += 2) {
          codes.push_back(element(i) | element(i + 1) << 4);
        }
      }
    }
    out_.tensors[name + "_blocks"] = {"U8", {experts, rows, cols / 32, 16}, codes};
    out_.tensors[name + "_scales"] = {"U8", {experts, rows, cols / 32}, scales};
  }

  void add_config() {
    const std::uint32_t heads = number("attention.head_count");
    const std::uint32_t dim = number("embedding_length");
    json& config = out_.config;
    config = {{"hidden_size", dim},
              {"num_hidden_layers", number("block_count")},
              {"num_attention_heads", heads},
              {"vocab_size", file_.find_tensor("token_embd.weight")->rows()},
              {"max_position_embeddings", number("context_length")},
              {"rms_norm_eps", real("attention.layer_norm_rms_epsilon")},
              {"rope_theta", real("rope.freq_base")},
              {"tie_word_embeddings", file_.find_tensor("output.weight") == nullptr}};
    const auto copy = [&](const std::string& key, const std::string& from) {
      const auto value = file_.get_u32(architecture_ + "." + from);
      if (value) config[key] = *value;
    };
    copy("num_key_value_heads", "attention.head_count_kv");
    copy("head_dim", "attention.key_length");
    copy("intermediate_size", "feed_forward_length");
    copy("sliding_window", "attention.sliding_window");
    copy("num_experts_per_tok", "expert_used_count");
    copy(kind_ == "gpt-oss" ? "num_local_experts" : "num_experts", "expert_count");
    if (kind_ != "gpt-oss") copy("moe_intermediate_size", "expert_feed_forward_length");
    copy("shared_expert_intermediate_size", "expert_shared_feed_forward_length");
    copy("linear_conv_kernel_dim", "ssm.conv_kernel");
    copy("linear_key_head_dim", "ssm.state_size");
    copy("linear_value_head_dim", "ssm.state_size");
    copy("linear_num_key_heads", "ssm.group_count");
    copy("linear_num_value_heads", "ssm.time_step_rank");
    copy("conv_L_cache", "shortconv.l_cache");
    if (const auto type = file_.get_string(architecture_ + ".rope.scaling.type")) {
      config["rope_scaling"] = {{"rope_type", *type}, {"factor", real("rope.scaling.factor")}};
      if (*type == "yarn") {
        config["rope_scaling"]["original_max_position_embeddings"] =
            number("rope.scaling.original_context_length");
      }
    }
    add_own_keys(config);
  }

  json layer_types(std::uint32_t count, std::uint32_t period, const std::string& other) const {
    json types = json::array();
    for (std::uint32_t i = 0; i < count; ++i) {
      types.push_back((i + 1) % period == 0 ? "full_attention" : other);
    }
    return types;
  }

  void add_own_keys(json& config) {
    const std::uint32_t blocks = number("block_count");
    if (kind_ == "qwen3moe") {
      config["architectures"] = {"Qwen3MoeForCausalLM"};
      config["norm_topk_prob"] = true;
    } else if (kind_ == "qwen3") {
      config["architectures"] = {"Qwen3ForCausalLM"};
    } else if (kind_ == "llama") {
      config["architectures"] = {"LlamaForCausalLM"};
    } else if (kind_ == "smollm3") {
      config["architectures"] = {"SmolLM3ForCausalLM"};
      config["no_rope_layers"] = json::array();
      for (std::uint32_t i = 0; i < blocks; ++i) {
        config["no_rope_layers"].push_back((i + 1) % 4 == 0 ? 0 : 1);
      }
    } else if (kind_ == "phi3") {
      config["architectures"] = {"Phi3ForCausalLM"};
      config["original_max_position_embeddings"] = number("rope.scaling.original_context_length");
      config["sliding_window"] = nullptr;
      config["partial_rotary_factor"] = 0.75;
      config["rope_scaling"] = {
          {"type", "longrope"},
          {"long_factor", floats_of(*file_.find_tensor("rope_factors_long.weight"))},
          {"short_factor", floats_of(*file_.find_tensor("rope_factors_short.weight"))},
          {"attention_factor", real("rope.scaling.attn_factor")}};
    } else if (kind_ == "gpt-oss") {
      config["architectures"] = {"GptOssForCausalLM"};
      config["swiglu_limit"] = 7.0;
      config["layer_types"] = layer_types(blocks, 2, "sliding_attention");
      config["rope_scaling"]["beta_fast"] = 32.0;
      config["rope_scaling"]["beta_slow"] = 1.0;
      config["rope_scaling"]["truncate"] = false;
    } else if (kind_ == "gemma3") {
      add_gemma3_keys(config);
    } else if (kind_ == "gemma4") {
      add_gemma4_keys(config);
    } else if (kind_ == "mistral3") {
      config["architectures"] = {"Ministral3ForCausalLM"};
      json& rope = config["rope_scaling"];
      rope["beta_fast"] = real("rope.scaling.yarn_beta_fast");
      rope["beta_slow"] = real("rope.scaling.yarn_beta_slow");
      rope["mscale"] = 1.0;
      rope["mscale_all_dim"] = real("rope.scaling.yarn_log_multiplier");
      rope["llama_4_scaling_beta"] = real("attention.temperature_scale");
    } else if (kind_ == "lfm2") {
      config["architectures"] = {"Lfm2ForCausalLM"};
      config["norm_eps"] = config["rms_norm_eps"];
      config.erase("rms_norm_eps");
      config["num_key_value_heads"] = 2;
      config["block_auto_adjust_ff_dim"] = false;
      config["layer_types"] = json::array();
      for (const std::int32_t n : file_.get_i32s("lfm2.attention.head_count_kv").value()) {
        config["layer_types"].push_back(n == 0 ? "conv" : "full_attention");
      }
    } else if (kind_ == "qwen35") {
      add_qwen35_keys(config, blocks - 1);
    } else {
      throw std::runtime_error("no rules for " + architecture_);
    }
  }

  void add_gemma3_keys(json& config) {
    config["architectures"] = {"Gemma3ForCausalLM"};
    config["hidden_activation"] = "gelu_pytorch_tanh";
    config["query_pre_attn_scalar"] = config["head_dim"];
    if (!variant_.newer_keys) {
      config["sliding_window_pattern"] = 6;
      config["rope_local_base_freq"] = 10000.0;
      return;
    }
    json full = config["rope_scaling"];
    full["rope_theta"] = config["rope_theta"];
    config.erase("rope_scaling");
    config.erase("rope_theta");
    config["rope_parameters"] = {
        {"full_attention", full},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000.0}}}};
    config["layer_types"] = layer_types(number("block_count"), 6, "sliding_attention");
  }

  // The last layer has full attention; windowed layers come first.
  void add_gemma4_keys(json& config) {
    config["architectures"] = {"Gemma4ForCausalLM"};
    config["hidden_activation"] = "gelu_pytorch_tanh";
    config["global_head_dim"] = config["head_dim"];
    config["head_dim"] = number("attention.key_length_swa");
    config["layer_types"] = json::array();
    for (const bool windowed : *file_.get_bools("gemma4.attention.sliding_window_pattern")) {
      config["layer_types"].push_back(windowed ? "sliding_attention" : "full_attention");
    }
    if (!config.contains("num_key_value_heads")) {
      const auto counts = file_.get_i32s("gemma4.attention.head_count_kv").value();
      config["num_key_value_heads"] = counts.front();
      config["num_global_key_value_heads"] = counts.back();
    }
    if (!config.contains("intermediate_size")) {
      config["intermediate_size"] = file_.get_i32s("gemma4.feed_forward_length")->front();
      config["use_double_wide_mlp"] = true;
    }
    config["num_kv_shared_layers"] = number("attention.shared_kv_layers");
    config["hidden_size_per_layer_input"] = number("embedding_length_per_layer_input");
    config["final_logit_softcapping"] = real("final_logit_softcapping");
    config["rope_parameters"] = {
        {"full_attention",
         {{"rope_type", "proportional"},
          {"rope_theta", config["rope_theta"]},
          {"partial_rotary_factor", 0.25}}},
        {"sliding_attention",
         {{"rope_type", "default"}, {"rope_theta", real("rope.freq_base_swa")}}}};
    config.erase("rope_theta");
    if (!config.contains("num_experts")) return;
    config["enable_moe_block"] = true;
    config["top_k_experts"] = config["num_experts_per_tok"];
    config.erase("num_experts_per_tok");
  }

  void add_qwen35_keys(json& config, std::uint32_t layers) {
    const std::uint32_t interval = number("full_attention_interval");
    const std::string name = architecture_ == "qwen35" ? "Qwen3_5" : "Qwen3_5Moe";
    config["num_hidden_layers"] = layers;
    config["mtp_num_hidden_layers"] = 1;
    config["layer_types"] = layer_types(layers, interval, "linear_attention");
    auto sections = file_.get_i32s(architecture_ + ".rope.dimension_sections").value();
    sections.pop_back();
    config["rope_parameters"] = {{"rope_type", "default"},
                                 {"rope_theta", config["rope_theta"]},
                                 {"mrope_section", sections},
                                 {"partial_rotary_factor", 0.5}};
    config.erase("rope_theta");
    if (!variant_.with_images) {
      config["architectures"] = {name + "ForCausalLM"};
      return;
    }
    const json tied = config["tie_word_embeddings"];
    config = {{"text_config", config},
              {"tie_word_embeddings", tied},
              {"vision_config", {{"hidden_size", 8}}},
              {"architectures", {name + "ForConditionalGeneration"}}};
    out_.add("model.visual.patch_embed.proj.weight", {2, 2}, {1, 2, 3, 4});
  }

  const GgufFile& file_;
  const HfVariant& variant_;
  std::string architecture_;
  std::string kind_;
  Names names_;
  HfCheckpoint out_;
};

}  // namespace

HfCheckpoint hf_checkpoint_of(const GgufFile& file, const HfVariant& variant) {
  return Inverse(file, variant).checkpoint();
}

}  // namespace edgedraft::test
