#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "tests/model/hf_directory.h"

// Checkpoints whose activations reach the protocol's limit, otherwise small.
namespace edgedraft::testing {

// Four layers with 4,096 key columns.
inline test::HfDirectory wide_target() {
  test::HfDirectory target;
  target.config.update({{"num_hidden_layers", 4},
                        {"num_attention_heads", 16},
                        {"num_key_value_heads", 16},
                        {"head_dim", 256}});
  for (int i = 0; i < 4; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    for (const char* name :
         {"input_layernorm.weight", "post_attention_layernorm.weight", "mlp.gate_proj.weight",
          "mlp.up_proj.weight", "mlp.down_proj.weight"}) {
      target.tensors[layer + name] = target.tensors[std::string("model.layers.0.") + name];
    }
    for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
      target.tensors[layer + "self_attn." + name + ".weight"] = {4096, 32};
    }
    target.tensors[layer + "self_attn.o_proj.weight"] = {32, 4096};
  }
  return target;
}

// A Mixture-of-Attentions drafter for it, which receives 1,024 values of CA keys and values and
// 8,192 per TLI layer.
inline test::HfDirectory wide_moa(std::uint32_t tli) {
  test::HfDirectory drafter;
  drafter.config = {{"tli", tli}, {"target_layers", 4}, {"lsa_num_attention_heads", 4096}};
  drafter.tensors = {{"Ekv2E.weight", {32, 8192}}, {"Ekv2E.bias", {32}}};
  const struct {
    const char* name;
    std::uint64_t dim;
    std::uint64_t cols;  // columns of queries, and of keys and values
  } layers[] = {{"self_attention.", 32, 256},
                {"cross_attention.", 32, 512},
                {"layer_self_attention.", 8192, 2}};
  for (const auto& layer : layers) {
    const auto add = [&](const char* name, test::HfDirectory::Shape shape) {
      drafter.tensors[std::string(layer.name) + name] = std::move(shape);
    };
    for (const char* name :
         {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"}) {
      add(name, {layer.cols, layer.dim});
    }
    add("self_attn.o_proj.weight", {layer.dim, layer.cols});
    add("mlp.gate_proj.weight", {2, layer.dim});
    add("mlp.up_proj.weight", {2, layer.dim});
    add("mlp.down_proj.weight", {layer.dim, 2});
    add("input_layernorm.weight", {layer.dim});
    add("post_attention_layernorm.weight", {layer.dim});
  }
  return drafter;
}

}  // namespace edgedraft::testing
