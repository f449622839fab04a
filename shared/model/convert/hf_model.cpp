#include "shared/model/convert/hf_model.h"

#include <algorithm>
#include <utility>

#include "shared/model/convert/hf_tokenizer.h"

namespace edgedraft {
namespace {

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text;
  for (const std::uint64_t dim : shape) text += (text.empty() ? "" : " x ") + std::to_string(dim);
  return text.empty() ? "a scalar" : text;
}

void add_config(const std::filesystem::path& directory, const HfConfig& config,
                GgufMetadata& metadata) {
  const DecoderConfig& decoder = config.decoder;
  const HeadShape& heads = decoder.layer.heads;
  const std::string prefix = decoder.architecture + ".";
  metadata.set_string("general.architecture", decoder.architecture);
  const auto name = std::filesystem::weakly_canonical(directory).filename().string();
  metadata.set_string("general.name", name);
  metadata.set_u32(prefix + "vocab_size", decoder.vocabulary_count);
  metadata.set_u32(prefix + "context_length", decoder.context_length);
  metadata.set_u32(prefix + "embedding_length", decoder.layer.dim);
  metadata.set_u32(prefix + "block_count", decoder.layer_count);
  metadata.set_u32(prefix + "feed_forward_length", decoder.layer.ffn_dim);
  metadata.set_u32(prefix + "attention.head_count", heads.query_heads);
  metadata.set_u32(prefix + "attention.head_count_kv", heads.kv_heads);
  metadata.set_u32(prefix + "attention.key_length", heads.head_dim);
  metadata.set_u32(prefix + "attention.value_length", heads.head_dim);
  metadata.set_f32(prefix + "attention.layer_norm_rms_epsilon", decoder.layer.rms_epsilon);
  metadata.set_u32(prefix + "rope.dimension_count", heads.head_dim);
  metadata.set_f32(prefix + "rope.freq_base", decoder.rope.theta);
  if (config.linear_factor) {
    metadata.set_string(prefix + "rope.scaling.type", "linear");
    metadata.set_f32(prefix + "rope.scaling.factor", *config.linear_factor);
  }
}

// Stores llama3 scaling as a tensor and linear scaling in the metadata.
void add_divisors(const HfConfig& config, ModelPlan& plan) {
  const std::vector<float>& divisors = config.decoder.rope.frequency_divisors;
  if (divisors.empty() || config.linear_factor) return;
  const ByteView bytes = std::as_bytes(std::span(divisors));
  plan.made.emplace_back(bytes.begin(), bytes.end());
  plan.tensors.push_back(
      {.info = {.name = "rope_freqs.weight", .type = DType::f32, .dims = {divisors.size()}},
       .source_type = DType::f32,
       .source = plan.made.back()});
}

}  // namespace

void CheckpointReader::add(const std::string& from, std::string to,
                           std::vector<std::uint64_t> shape, std::uint32_t pair_heads) {
  if (error_) return;
  const SafetensorsTensor* tensor = checkpoint_.find(from);
  if (tensor == nullptr) {
    error_ = Error{Errc::bad_file, "the checkpoint lacks the tensor " + from};
    return;
  }
  const auto source_type = tensor->weight_type();
  if (!source_type) {
    error_ = Error{Errc::unsupported, "tensor " + from + " is stored as " + tensor->type +
                                          "; F32, F16 and BF16 are supported"};
    return;
  }
  if (tensor->shape != shape || std::find(shape.begin(), shape.end(), 0u) != shape.end()) {
    error_ = Error{Errc::bad_file, "tensor " + from + " is " + shape_text(tensor->shape) +
                                       "; the configuration requires " + shape_text(shape)};
    return;
  }
  taken_.push_back(from);
  const std::vector<std::uint64_t> dims(shape.rbegin(), shape.rend());
  plan_.tensors.push_back(
      {.info = {.name = std::move(to), .type = stored_type(type_, dims), .dims = dims},
       .source_type = *source_type,
       .source = tensor->bytes,
       .pair_heads = pair_heads});
}

void CheckpointReader::add_if_there(const std::string& from, std::string to,
                                    std::vector<std::uint64_t> shape, std::uint32_t pair_heads) {
  if (checkpoint_.find(from) != nullptr) add(from, std::move(to), std::move(shape), pair_heads);
}

void CheckpointReader::add_layer(const std::string& from, const std::string& to,
                                 const LayerShape& shape, RopeStyle style, InputNorm input_norm) {
  const HeadShape& heads = shape.heads;
  const bool pairs = style == RopeStyle::pairs;
  const std::uint32_t query_pairs = pairs ? heads.query_heads : 0;
  const std::uint32_t kv_pairs = pairs ? heads.kv_heads : 0;
  const std::string attention = from + "self_attn.";
  const std::string mlp = from + "mlp.";
  if (input_norm == InputNorm::required) {
    add(from + "input_layernorm.weight", to + "attn_norm.weight", {shape.dim}, 0);
  } else {
    add_if_there(from + "input_layernorm.weight", to + "attn_norm.weight", {shape.dim}, 0);
  }
  add(attention + "q_proj.weight", to + "attn_q.weight", {heads.query_cols(), shape.dim},
      query_pairs);
  add(attention + "k_proj.weight", to + "attn_k.weight", {heads.kv_cols(), shape.dim}, kv_pairs);
  add(attention + "v_proj.weight", to + "attn_v.weight", {heads.kv_cols(), shape.dim}, 0);
  add(attention + "o_proj.weight", to + "attn_output.weight", {shape.dim, heads.query_cols()}, 0);
  if (!pairs) {  // no Llama checkpoint has biases; refuse_others() would report one
    add_if_there(attention + "q_proj.bias", to + "attn_q.bias", {heads.query_cols()}, 0);
    add_if_there(attention + "k_proj.bias", to + "attn_k.bias", {heads.kv_cols()}, 0);
    add_if_there(attention + "v_proj.bias", to + "attn_v.bias", {heads.kv_cols()}, 0);
  }
  add(from + "post_attention_layernorm.weight", to + "ffn_norm.weight", {shape.dim}, 0);
  add(mlp + "gate_proj.weight", to + "ffn_gate.weight", {shape.ffn_dim, shape.dim}, 0);
  add(mlp + "up_proj.weight", to + "ffn_up.weight", {shape.ffn_dim, shape.dim}, 0);
  add(mlp + "down_proj.weight", to + "ffn_down.weight", {shape.dim, shape.ffn_dim}, 0);
}

void CheckpointReader::leave_out(const std::string& from, const std::vector<std::uint64_t>& shape) {
  const SafetensorsTensor* tensor = checkpoint_.find(from);
  if (error_ || tensor == nullptr) return;
  if (tensor->shape != shape) {
    error_ = Error{Errc::mismatch, "tensor " + from + " is " + shape_text(tensor->shape) +
                                       "; the target's is " + shape_text(shape)};
    return;
  }
  taken_.push_back(from);
}

void CheckpointReader::refuse_others() {
  if (error_) return;
  std::sort(taken_.begin(), taken_.end());
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    // Old checkpoints store frequencies, which the configuration implies.
    if (name.ends_with("rotary_emb.inv_freq")) continue;
    if (std::binary_search(taken_.begin(), taken_.end(), name)) continue;
    error_ = Error{Errc::unsupported, "the checkpoint has the tensor " + name +
                                          ", which a model of this kind does not have"};
    return;
  }
}

Result<ModelPlan> plan_hf_model(const std::filesystem::path& directory, DType type,
                                const std::optional<std::string>& pre) {
  const auto config = read_hf_config(directory);
  if (!config) return config.error();
  auto checkpoint = SafetensorsModel::open(directory);
  if (!checkpoint) return checkpoint.error();

  ModelPlan plan;
  add_config(directory, *config, plan.metadata);
  set_file_type(plan.metadata, type);

  const DecoderConfig& decoder = config->decoder;
  const RopeStyle style = decoder.architecture == "llama" ? RopeStyle::pairs : RopeStyle::halves;
  const std::vector<std::uint64_t> table = {decoder.vocabulary_count, decoder.layer.dim};
  CheckpointReader reader(*checkpoint, type, plan);
  add_divisors(*config, plan);
  reader.add("model.embed_tokens.weight", "token_embd.weight", table, 0);
  for (std::uint32_t i = 0; i < decoder.layer_count && !reader.error(); ++i) {
    const std::string index = std::to_string(i);
    reader.add_layer("model.layers." + index + ".", "blk." + index + ".", decoder.layer, style);
  }
  reader.add("model.norm.weight", "output_norm.weight", {decoder.layer.dim}, 0);
  // A separately stored head is used, whatever config.json says.
  if (config->tied_embeddings) {
    reader.add_if_there("lm_head.weight", "output.weight", table, 0);
  } else {
    reader.add("lm_head.weight", "output.weight", table, 0);
  }
  reader.refuse_others();
  if (reader.error()) return *reader.error();
  // After the tensors: the embedding confirms the size to which the tokenizer is padded.
  auto notice = add_hf_tokenizer(directory, *config, pre, plan.metadata);
  if (!notice) return notice.error();
  plan.notice = *std::move(notice);
  raise_head(plan);
  plan.checkpoints.push_back(std::move(*checkpoint));
  return plan;
}

}  // namespace edgedraft
