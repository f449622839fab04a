#include "shared/model/families/layer_list.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {

LayerTensor& LayerList::matrix(std::string_view name, std::string_view hf, Part part,
                               std::uint32_t rows, std::uint32_t cols) {
  return tensors_.emplace_back(
      LayerTensor{.name = name, .hf = {.name = hf}, .part = part, .rows = rows, .cols = cols});
}

LayerTensor& LayerList::vector(std::string_view name, std::string_view hf, Part part,
                               std::uint32_t cols) {
  LayerTensor& added = matrix(name, hf, part, 1, cols);
  added.kind = LayerTensor::Kind::vector;
  return added;
}

LayerTensor& LayerList::optional_vector(std::string_view name, std::string_view hf, Part part,
                                        std::uint32_t cols) {
  LayerTensor& added = matrix(name, hf, part, 1, cols);
  added.kind = LayerTensor::Kind::optional_vector;
  return added;
}

void LayerList::ones(Part part, std::uint32_t cols) {
  vector("", "", part, cols).kind = LayerTensor::Kind::ones;
}

void LayerList::unused(std::string_view name, std::string_view hf) {
  vector(name, hf, nullptr, 0).kind = LayerTensor::Kind::unused;
}

LayerTensor& LayerList::of(Part part) {
  const auto found = std::ranges::find(tensors_, part, &LayerTensor::part);
  EDGEDRAFT_CHECK(found != tensors_.end());
  return *found;
}

void LayerList::attention(const LayerPlan& plan) {
  using L = LayerTensors;
  const HeadShape& heads = plan.shape.heads;
  const std::uint32_t dim = plan.shape.dim;
  const std::uint32_t query_cols = heads.query_cols();
  const std::uint32_t kv_cols = heads.kv_cols();
  vector("attn_norm.weight", "input_layernorm.weight", &L::attn_norm, dim);
  matrix("attn_q.weight", "self_attn.q_proj.weight", &L::attn_q, query_cols, dim).heads =
      heads.query_heads;
  matrix("attn_k.weight", "self_attn.k_proj.weight", &L::attn_k, kv_cols, dim).heads =
      heads.kv_heads;
  matrix("attn_v.weight", "self_attn.v_proj.weight", &L::attn_v, kv_cols, dim);
  matrix("attn_output.weight", "self_attn.o_proj.weight", &L::attn_output, dim, query_cols);
  optional_vector("attn_q.bias", "self_attn.q_proj.bias", &L::attn_q_bias, query_cols).heads =
      heads.query_heads;
  optional_vector("attn_k.bias", "self_attn.k_proj.bias", &L::attn_k_bias, kv_cols).heads =
      heads.kv_heads;
  optional_vector("attn_v.bias", "self_attn.v_proj.bias", &L::attn_v_bias, kv_cols);
}

void LayerList::head_norms(const LayerPlan& plan) {
  const std::uint32_t head_dim = plan.shape.heads.head_dim;
  vector("attn_q_norm.weight", "self_attn.q_norm.weight", &LayerTensors::attn_q_norm, head_dim);
  vector("attn_k_norm.weight", "self_attn.k_norm.weight", &LayerTensors::attn_k_norm, head_dim);
}

void LayerList::ffn_norm(const LayerPlan& plan) {
  vector("ffn_norm.weight", "post_attention_layernorm.weight", &LayerTensors::ffn_norm,
         plan.shape.dim);
}

void LayerList::experts(const LayerPlan& plan) {
  using L = LayerTensors;
  const ExpertShape& shape = plan.experts;
  const std::uint32_t dim = plan.shape.dim;
  const std::uint32_t ffn_dim = shape.ffn_dim;
  const auto stack = [&](std::string_view name, std::string_view hf, HfSource joined, Part part,
                         std::uint32_t rows, std::uint32_t cols) {
    LayerTensor& tensor = matrix(name, hf, part, shape.count * rows, cols);
    tensor.experts = shape.count;
    tensor.hf_else = joined;
  };
  // Newer checkpoints join all experts, and each one's gate and up.
  const auto half = [&](std::uint32_t first) {
    return HfSource{.name = "mlp.experts.gate_up_proj",
                    .layout = {.rows = {.stored = 2 * ffn_dim, .first = first}}};
  };
  matrix("ffn_gate_inp.weight", "mlp.gate.weight", &L::router, shape.count, dim).exact = true;
  stack("ffn_gate_exps.weight", "mlp.experts.#.gate_proj.weight", half(0), &L::experts_gate,
        ffn_dim, dim);
  stack("ffn_up_exps.weight", "mlp.experts.#.up_proj.weight", half(ffn_dim), &L::experts_up,
        ffn_dim, dim);
  stack("ffn_down_exps.weight", "mlp.experts.#.down_proj.weight", {.name = "mlp.experts.down_proj"},
        &L::experts_down, dim, ffn_dim);
  for (const Part part : {&L::experts_gate, &L::experts_up})
    of(part).joined = "ffn_gate_up_exps.weight";
  of(&L::experts_up).joined_row = ffn_dim;
}

void LayerList::dense(const LayerPlan& plan) {
  using L = LayerTensors;
  const std::uint32_t dim = plan.shape.dim;
  const std::uint32_t ffn_dim = plan.shape.ffn_dim;
  matrix("ffn_gate.weight", "mlp.gate_proj.weight", &L::ffn_gate, ffn_dim, dim);
  matrix("ffn_up.weight", "mlp.up_proj.weight", &L::ffn_up, ffn_dim, dim);
  matrix("ffn_down.weight", "mlp.down_proj.weight", &L::ffn_down, dim, ffn_dim);
}

void llama_layer(const LayerPlan& plan, LayerList& list) {
  list.attention(plan);
  list.ffn_norm(plan);
  list.dense(plan);
}

LayerList drafter_layer(const LayerShape& shape) {
  LayerList list;
  llama_layer({.shape = shape}, list);
  list.of(&LayerTensors::attn_norm).kind = LayerTensor::Kind::optional_vector;
  return list;
}

}  // namespace edgedraft
