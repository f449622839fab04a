#include "shared/drafting/bundle_parts.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "shared/model/convert/convert.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/draft_vocabulary.h"
#include "shared/model/fingerprint.h"
#include "shared/model/json_file.h"
#include "shared/model/tensor_shapes.h"
#include "shared/model/tokenizer/space_rule.h"
#include "shared/model/tokenizer/vocabulary.h"

namespace edgedraft {
namespace {

using nlohmann::json;

constexpr std::string_view kDim = "embedding_length";
constexpr std::string_view kFfnDim = "feed_forward_length";
constexpr std::string_view kQueryHeads = "head_count";
constexpr std::string_view kKvHeads = "head_count_kv";
constexpr std::string_view kHeadDim = "key_length";
constexpr std::string_view kEpsilon = "rms_epsilon";
constexpr std::string_view kTheta = "rope.freq_base";
constexpr std::string_view kStyle = "rope.style";  // "pairs" or "halves"
constexpr std::string_view kDivisors = "rope_freqs.weight";

std::string key(std::string_view prefix, std::string_view name) {
  return std::string(prefix) + std::string(name);
}

Result<LayerShape> read_shape(const GgufFile& file, std::string_view prefix) {
  LayerShape shape;
  const std::pair<std::string_view, std::uint32_t*> fields[] = {
      {kDim, &shape.dim},
      {kFfnDim, &shape.ffn_dim},
      {kQueryHeads, &shape.heads.query_heads},
      {kKvHeads, &shape.heads.kv_heads},
      {kHeadDim, &shape.heads.head_dim},
  };
  for (const auto& [name, field] : fields) {
    const auto count = read_count(file, key(prefix, name), kWidthMax);
    if (!count) return count.error();
    *field = *count;
  }
  const auto epsilon = read_bundle_epsilon(file, key(prefix, kEpsilon));
  if (!epsilon) return epsilon.error();
  shape.rms_epsilon = *epsilon;
  if (auto checked = check_heads(shape.heads, std::string(prefix), kDrafterHeadDimMax); !checked) {
    return checked.error();
  }
  return shape;
}

Result<RopeConfig> read_rope(const GgufFile& file, std::string_view prefix,
                             std::string_view tensor_prefix, std::uint32_t head_dim) {
  RopeConfig rope;
  const auto theta = file.get_f32(key(prefix, kTheta));
  if (!theta) return theta.error();
  if (!(*theta > 1.0f) || !std::isfinite(*theta)) {
    return bad_file(key(prefix, kTheta) + " is not a finite number above 1");
  }
  rope.theta = *theta;
  const auto style = file.get_string(key(prefix, kStyle));
  if (!style) return style.error();
  if (*style != "pairs" && *style != "halves") {
    return bad_file(key(prefix, kStyle) + " is neither pairs nor halves");
  }
  rope.style = *style == "pairs" ? RopeStyle::pairs : RopeStyle::halves;
  const std::string divisors = key(tensor_prefix, kDivisors);
  if (file.find_tensor(divisors) != nullptr) {
    auto read = read_divisor_tensor(file, divisors, head_dim / 2);
    if (!read) return read.error();
    rope.frequency_divisors = std::move(*read);
  }
  return rope;
}

}  // namespace

Result<ModelPlan> plan_checkpoint(const BundleSource& source,
                                  Result<void> (*add)(const CheckpointInput& input,
                                                      ModelPlan& plan)) {
  auto checkpoint = SafetensorsModel::open(source.drafter);
  if (!checkpoint) return checkpoint.error();
  const auto target = read_decoder_config(source.target);
  if (!target) return target.error();
  const auto config = read_drafter_config(source.drafter);
  if (!config) return config.error();
  const DType type = source.type.value_or(kTypeOfDirectories);
  ModelPlan plan;
  plan.metadata.set_u32(std::string(kBundleContextLengthKey), target->context_length);
  plan.metadata.set_u32(std::string(kBundleTargetLayerCountKey), target->layer_count);
  set_file_type(plan.metadata, type);
  const CheckpointInput input{.file = source.target,
                              .target = *target,
                              .checkpoint = *checkpoint,
                              .config = *config,
                              .type = type};
  if (auto added = add(input, plan); !added) return added.error();
  plan.checkpoints.push_back(std::move(*checkpoint));
  return plan;
}

Result<json> read_drafter_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "config.json";
  if (!std::filesystem::exists(path)) {
    return Result<json>(boost::system::in_place_value, json::object());
  }
  return read_json_object(path);
}

Result<void> check_made_for(
    const json& config,
    std::initializer_list<std::pair<const char*, std::uint32_t>> of_the_target) {
  for (const auto& [name, expected] : of_the_target) {
    const auto value = json_u32(config, name);
    if (!value) return value.error();
    if (*value && **value != expected) {
      return Error{Errc::mismatch, "the drafter is made for a target with \"" + std::string(name) +
                                       "\" " + std::to_string(**value) + "; this one has " +
                                       std::to_string(expected)};
    }
  }
  return {};
}

Result<std::uint32_t> rows_of(const SafetensorsModel& checkpoint, const std::string& name) {
  const SafetensorsTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) {
    return Error{Errc::bad_file, "the drafter's checkpoint lacks the tensor " + name};
  }
  if (tensor->shape.size() != 2 || tensor->shape[0] == 0 || tensor->shape[0] > kWidthMax) {
    return Error{Errc::bad_file, "tensor " + name + " of the drafter has an invalid shape"};
  }
  return static_cast<std::uint32_t>(tensor->shape[0]);
}

Result<LayerShape> infer_layer(const SafetensorsModel& checkpoint, const LayerInference& layer) {
  const auto query_cols = rows_of(checkpoint, layer.prefix + "self_attn.q_proj.weight");
  if (!query_cols) return query_cols.error();
  const auto kv_cols = rows_of(checkpoint, layer.prefix + "self_attn.k_proj.weight");
  if (!kv_cols) return kv_cols.error();
  const auto ffn_dim = rows_of(checkpoint, layer.prefix + "mlp.up_proj.weight");
  if (!ffn_dim) return ffn_dim.error();
  const std::uint32_t head_dim = layer.head_dim;
  if (head_dim == 0 || *query_cols % head_dim != 0 || *kv_cols % head_dim != 0) {
    return Error{Errc::mismatch,
                 "the drafter's " + layer.prefix + "self_attn has " + std::to_string(*query_cols) +
                     " query and " + std::to_string(*kv_cols) +
                     " key columns, not multiples of the head size " + std::to_string(head_dim)};
  }
  const HeadShape heads{*query_cols / head_dim, *kv_cols / head_dim, head_dim};
  if (auto checked =
          check_heads(heads, "the drafter's " + layer.prefix + "self_attn", kDrafterHeadDimMax);
      !checked) {
    return checked.error();
  }
  return LayerShape{
      .dim = layer.dim, .heads = heads, .ffn_dim = *ffn_dim, .rms_epsilon = layer.rms_epsilon};
}

void set_layer(GgufMetadata& metadata, std::string_view prefix, const LayerShape& shape,
               float theta, RopeStyle style) {
  metadata.set_u32(key(prefix, kDim), shape.dim);
  metadata.set_u32(key(prefix, kFfnDim), shape.ffn_dim);
  metadata.set_u32(key(prefix, kQueryHeads), shape.heads.query_heads);
  metadata.set_u32(key(prefix, kKvHeads), shape.heads.kv_heads);
  metadata.set_u32(key(prefix, kHeadDim), shape.heads.head_dim);
  metadata.set_f32(key(prefix, kEpsilon), shape.rms_epsilon);
  metadata.set_f32(key(prefix, kTheta), theta);
  metadata.set_string(key(prefix, kStyle), style == RopeStyle::pairs ? "pairs" : "halves");
}

void add_divisors(const RopeConfig& rope, std::string_view tensor_prefix, ModelPlan& plan) {
  const std::vector<float>& divisors = rope.frequency_divisors;
  if (divisors.empty()) return;
  const ByteView bytes = std::as_bytes(std::span(divisors));
  plan.made.emplace_back(bytes.begin(), bytes.end());
  plan.tensors.push_back({.info = {.name = key(tensor_prefix, kDivisors),
                                   .type = DType::f32,
                                   .dims = {divisors.size()}},
                          .source_type = DType::f32,
                          .source = plan.made.back()});
}

Result<void> add_halves(const PlannedTensor& whole, DType type, ModelPlan& plan) {
  const std::uint64_t rows = whole.info.dims[1];
  const std::uint64_t dim = whole.info.dims[0] / 2;
  const auto part_bytes = row_bytes(whole.source_type, dim);
  if (!part_bytes) {
    return Error{Errc::unsupported,
                 whole.info.name + " has the type " + std::string(traits(whole.source_type).name) +
                     ", whose blocks are not whole at the width " + std::to_string(dim) +
                     "; convert the model with --type f16 first"};
  }
  const std::vector<std::uint64_t> dims{dim, rows};
  const std::size_t row = whole.source.size() / rows;
  std::size_t begin = 0;
  for (const char* name : {"fc_embd.weight", "fc_feature.weight"}) {
    Bytes& bytes = plan.made.emplace_back();
    bytes.reserve(rows * *part_bytes);
    for (std::uint64_t r = 0; r < rows; ++r) {
      const ByteView part = whole.source.subspan(r * row + begin, *part_bytes);
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    plan.tensors.push_back({.info = {.name = name, .type = stored_type(type, dims), .dims = dims},
                            .source_type = whole.source_type,
                            .source = bytes});
    begin += *part_bytes;
  }
  return {};
}

Result<void> copy_identity(const GgufFile& target, GgufMetadata& metadata) {
  const auto fingerprint = model_fingerprint(target);
  if (!fingerprint) return fingerprint.error();
  metadata.set_string(std::string(kTargetFingerprintKey), to_hex(*fingerprint));
  // Missing keys have a meaning for a target, so the drafter's own must be removed.
  metadata.erase(std::string(kSpaceRuleKey));
  metadata.erase(std::string(kEndIdsKey));
  for (const auto& [name, value] : target.metadata()) {
    if (name.starts_with("tokenizer.") || name == kSpaceRuleKey || name == kEndIdsKey) {
      metadata.set(std::string(name), value);
    }
  }
  return {};
}

void copy_vocabulary(const GgufFile& target, ModelPlan& plan) {
  for (const char* name : {"token_embd.weight", "output.weight"}) {
    const GgufTensor* tensor = target.find_tensor(name);
    if (tensor != nullptr) plan.tensors.push_back(copy_of(*tensor, name));
  }
}

Result<void> copy_head(const GgufFile& target, ModelPlan& plan) {
  for (const char* name : {"output.weight", "token_embd.weight"}) {
    const GgufTensor* tensor = target.find_tensor(name);
    if (tensor == nullptr) continue;
    plan.tensors.push_back(copy_of(*tensor, name));
    return {};
  }
  return Error{Errc::bad_file, "the target has neither output.weight nor token_embd.weight"};
}

void read_head(const GgufFile& file, const BundleConfig& config, std::uint32_t dim,
               TensorReader& reader, TensorView& out) {
  const bool is_tied = file.find_tensor("output.weight") == nullptr && config.draft_tokens.empty();
  reader.matrix(is_tied ? "token_embd.weight" : "output.weight", config.head_rows(), dim, out);
}

Result<float> read_bundle_epsilon(const GgufFile& file, std::string_view name) {
  const auto epsilon = file.get_f32(name);
  if (!epsilon) return epsilon.error();
  if (!(*epsilon >= 0.0f && *epsilon < 1.0f))
    return bad_file(std::string(name) + " is out of range");
  return *epsilon;
}

Result<BundleLayer> read_bundle_layer(const GgufFile& file, std::string_view prefix,
                                      std::string_view tensor_prefix) {
  const auto shape = read_shape(file, prefix);
  if (!shape) return shape.error();
  auto rope = read_rope(file, prefix, tensor_prefix, shape->heads.head_dim);
  if (!rope) return rope.error();
  return BundleLayer{.shape = *shape, .rope = std::move(*rope)};
}

Result<void> read_bundle_config(const GgufFile& file, std::string_view architecture,
                                BundleConfig& config) {
  const auto found = file.architecture();
  if (!found) return found.error();
  if (*found != architecture) {
    return bad_file("the architecture is '" + std::string(*found) + "', not " +
                    std::string(architecture));
  }
  const auto context = read_count(file, kBundleContextLengthKey, 0x7FFFFFFFu);
  if (!context) return context.error();
  const auto layer_count = read_count(file, kBundleTargetLayerCountKey, kLayerCountMax);
  if (!layer_count) return layer_count.error();
  config.context_length = *context;
  config.target_layer_count = *layer_count;
  return {};
}

Result<void> read_bundle_vocabulary(const GgufFile& file, std::uint32_t dim, BundleConfig& config) {
  const GgufTensor* table = file.find_tensor("token_embd.weight");
  if (table == nullptr) return missing_tensor("token_embd.weight");
  if (table->rows() > kVocabularyCountMax) return wrong_shape(*table, 0, dim);
  config.vocabulary_count = static_cast<std::uint32_t>(table->rows());
  auto draft_tokens = read_draft_tokens(file, config.vocabulary_count);
  if (!draft_tokens) return draft_tokens.error();
  config.draft_tokens = std::move(*draft_tokens);
  return {};
}

}  // namespace edgedraft
