#include <algorithm>
#include <cmath>

#include "shared/model/families/family.h"
#include "shared/model/families/hf_keys.h"
#include "shared/model/gguf.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::string_view kPhi3Hf[] = {"Phi3ForCausalLM"};
constexpr const char* kLong = "rope_factors_long.weight";
constexpr const char* kShort = "rope_factors_short.weight";
constexpr std::string_view kPhi3Tensors[] = {kLong, kShort};
constexpr std::string_view kPhi3Rope[] = {"longrope", "su"};
// llama.cpp ignores the window, and so do the models' own programs beyond their short contexts.
constexpr std::string_view kPhi3Keys[] = {"attention.sliding_window"};

void plan_phi3(PlanKeys& keys, DecoderConfig& config) {
  config.rope.long_after =
      keys.count_or("rope.scaling.original_context_length", 0x7FFFFFFFu, config.context_length);
}

Result<void> read_phi3_factors(const GgufFile& file, DecoderConfig& config) {
  for (const auto& [name, divisors] : {std::pair(kShort, &config.rope.frequency_divisors),
                                       std::pair(kLong, &config.rope.long_divisors)}) {
    if (file.find_tensor(name) == nullptr) continue;
    auto stored = read_divisor_tensor(file, name, config.rope.rotated / 2);
    if (!stored) return stored.error();
    *divisors = *std::move(stored);
  }
  return {};
}

void phi3_layer(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const HeadShape& heads = plan.shape.heads;
  const std::uint32_t dim = plan.shape.dim;
  const std::uint32_t query_cols = heads.query_cols();
  const std::uint32_t kv_cols = heads.kv_cols();
  const std::uint32_t ffn_dim = plan.shape.ffn_dim;
  const auto rows_of = [&](std::string_view name, std::string_view hf, LayerList::Part part,
                           std::uint32_t first, std::uint32_t rows, std::uint32_t all) {
    LayerTensor& tensor = list.matrix(name, hf, part, rows, dim);
    tensor.first_row = first;
    tensor.stored_rows = all;
  };
  const std::uint32_t qkv = query_cols + 2 * kv_cols;
  list.vector("attn_norm.weight", "input_layernorm.weight", &L::attn_norm, dim);
  rows_of("attn_qkv.weight", "self_attn.qkv_proj.weight", &L::attn_q, 0, query_cols, qkv);
  rows_of("attn_qkv.weight", "self_attn.qkv_proj.weight", &L::attn_k, query_cols, kv_cols, qkv);
  rows_of("attn_qkv.weight", "self_attn.qkv_proj.weight", &L::attn_v, query_cols + kv_cols, kv_cols,
          qkv);
  list.matrix("attn_output.weight", "self_attn.o_proj.weight", &L::attn_output, dim, query_cols);
  list.ffn_norm(plan);
  rows_of("ffn_up.weight", "mlp.gate_up_proj.weight", &L::ffn_gate, 0, ffn_dim, 2 * ffn_dim);
  rows_of("ffn_up.weight", "mlp.gate_up_proj.weight", &L::ffn_up, ffn_dim, ffn_dim, 2 * ffn_dim);
  list.matrix("ffn_down.weight", "mlp.down_proj.weight", &L::ffn_down, dim, ffn_dim);
}

// Factors of rotation, and the factor of cosines and sines that goes with them.
// Source    LongRoPE (Ding et al. 2024), as in the models' own program
void phi3_hf(HfKeys& keys) {
  constexpr double kContextMax = 2147483647.0;
  const double context = keys.size("max_position_embeddings");
  double original = keys.size("original_max_position_embeddings");
  if (keys.has_in_rope("original_max_position_embeddings")) {
    original = keys.positive_in_rope("original_max_position_embeddings");
  }
  if (original == 0.0) original = context;
  keys.set_count("rope.scaling.original_context_length",
                 static_cast<std::uint32_t>(std::clamp(original, 1.0, kContextMax)));
  keys.set_count("attention.sliding_window", keys.size("sliding_window"));
  const std::string kind = keys.rope_type();
  if (std::ranges::find(kPhi3Rope, kind) == std::ranges::end(kPhi3Rope)) return;
  for (const char* other : {"short_mscale", "long_mscale"}) keys.refuse_in_rope(other);
  keys.set_vector(kLong, keys.divisors_in_rope("long_factor"));
  keys.set_vector(kShort, keys.divisors_in_rope("short_factor"));
  double magnitude = 1.0;
  if (keys.has_in_rope("attention_factor")) {
    magnitude = keys.positive_in_rope("attention_factor");
  } else if (context > original && original > 1.0) {
    magnitude = std::sqrt(1.0 + std::log(context / original) / std::log(original));
  }
  keys.set_number("rope.scaling.attn_factor", magnitude);
}

}  // namespace

// Phi-3 and Phi-4: queries, keys and values in one tensor, gate and up in another; heads rotate in
// part, by other factors in long contexts.
extern const Family kPhi3;
const Family kPhi3 = {.architecture = "phi3",
                      .hf_architectures = kPhi3Hf,
                      .keys = kPhi3Keys,
                      .other_tensors = kPhi3Tensors,
                      .plan = plan_phi3,
                      .tensors = phi3_layer,
                      .rope_tensors = read_phi3_factors,
                      .hf = phi3_hf,
                      .hf_defaults = R"({"rms_norm_eps": 1e-5})",
                      .hf_rope_types = kPhi3Rope};

}  // namespace edgedraft
