#include "shared/drafting/dflash/dflash_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/dflash/dflash_model.h"
#include "shared/drafting/draft_tokens.h"
#include "shared/model/convert/hf_config.h"
#include "shared/model/families/checkpoint_reader.h"
#include "shared/model/families/layers_of_drafters.h"
#include "shared/model/json_file.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

using nlohmann::json;

constexpr std::string_view kSourceKeys = "dflash.";
constexpr std::string_view kMaskTokenKey = "tokenizer.ggml.mask_token_id";
constexpr const char* kHiddenNorm = "hidden_norm.weight";

// Settings of a block, as both layouts have them.
struct BlockKeys {
  std::vector<std::int32_t> states;
  std::uint32_t window = 0;
  std::vector<bool> is_windowed;  // per layer; empty: none
  std::uint32_t block_size = 0;
  std::uint32_t mask_token = 0;
  bool causal = false;
  std::optional<bool> causal_windows = {};  // as `causal`
  // 0: none.
  float embedding_scale = 0.0f;
  float logit_scale = 0.0f;
  float logit_cap = 0.0f;
};

Result<void> set_scales(const BlockKeys& keys, GgufMetadata& metadata) {
  const std::tuple<std::string_view, std::string_view, float> scales[] = {
      {kDflashEmbeddingScale, "scale of embeddings", keys.embedding_scale},
      {kDflashLogitScale, "scale of logits", keys.logit_scale},
      {kDflashLogitCap, "logit soft cap", keys.logit_cap}};
  for (const auto& [key, what, value] : scales) {
    if (value == 0.0f) continue;
    if (!(value > 0.0f) || !std::isfinite(value)) {
      return bad_file("the drafter's " + std::string(what) + " is not a finite number above 0");
    }
    metadata.set_f32(std::string(key), value);
  }
  return {};
}

// `target_layers`: the target's number of layers.
Result<void> set_block(const BlockKeys& keys, std::uint32_t layer_count,
                       std::uint32_t target_layers, GgufMetadata& metadata) {
  const auto states = fused_states(keys.states, target_layers, "target_layers");
  if (!states) return states.error();
  if (!keys.is_windowed.empty() && keys.is_windowed.size() != layer_count) {
    return bad_file("the drafter's windows are those of " +
                    std::to_string(keys.is_windowed.size()) + " layers; it has " +
                    std::to_string(layer_count));
  }
  if (keys.window > kWidthMax) return bad_file("the drafter's attention window is out of range");
  if (keys.block_size < 2 || keys.block_size > kDflashBlockSizeMax) {
    return Error{Errc::unsupported, "the drafter's block has " + std::to_string(keys.block_size) +
                                        " tokens; 2 to " + std::to_string(kDflashBlockSizeMax) +
                                        " are supported"};
  }
  std::vector<std::int32_t> windows(layer_count, 0);
  for (std::size_t i = 0; i < keys.is_windowed.size(); ++i) {
    if (keys.is_windowed[i]) windows[i] = static_cast<std::int32_t>(keys.window);
  }
  metadata.set_string("general.architecture", kDflashArchitecture);
  metadata.set_i32s(std::string(kDflashStates), keys.states);
  metadata.set_i32s(std::string(kDflashWindows), windows);
  metadata.set_u32(std::string(kDflashBlockSize), keys.block_size);
  metadata.set_u32(std::string(kDflashMaskToken), keys.mask_token);
  metadata.set_bool(std::string(kDflashCausal), keys.causal);
  if (keys.causal_windows) {
    metadata.set_bool(std::string(kDflashCausalWindows), *keys.causal_windows);
  }
  return set_scales(keys, metadata);
}

Result<void> check_width(const DecoderConfig& drafter, const DecoderConfig& target) {
  if (drafter.layer.dim == target.layer.dim) return {};
  return Error{Errc::mismatch, "the drafter is made for a target of width " +
                                   std::to_string(drafter.layer.dim) + "; this one's is " +
                                   std::to_string(target.layer.dim)};
}

// --- GGUF ---

Result<BlockKeys> read_block_keys(const GgufFile& file) {
  const auto full = [](std::string_view key) { return std::string(kSourceKeys).append(key); };
  BlockKeys keys;
  auto states = file.get_i32s(full("target_layers"));
  if (!states) return states.error();
  keys.states = std::move(*states);
  const auto block_size = file.get_u32(full("block_size"));
  if (!block_size) return block_size.error();
  const auto mask_token = file.get_u32(kMaskTokenKey);
  if (!mask_token) return mask_token.error();
  const auto causal = file.get_bool_or(full("attention.causal"), false);
  if (!causal) return causal.error();
  const auto window = file.get_u32_or(full("attention.sliding_window"), 0);
  if (!window) return window.error();
  keys.block_size = *block_size;
  keys.mask_token = *mask_token;
  const std::pair<const char*, float*> scales[] = {{"embedding_scale", &keys.embedding_scale},
                                                   {"logit_scale", &keys.logit_scale},
                                                   {"final_logit_softcapping", &keys.logit_cap}};
  for (const auto& [key, field] : scales) {
    const auto value = file.get_f32_or(full(key), 0.0f);
    if (!value) return value.error();
    *field = *value;
  }
  keys.causal = *causal;
  keys.window = *window;
  if (keys.window == 0) return keys;
  auto pattern = file.get_bools(full("attention.sliding_window_pattern"));
  if (!pattern) return pattern.error();
  keys.is_windowed = std::move(*pattern);
  return keys;
}

// Copies the keys of the layers under the family's name, which then refuses other computations.
Result<void> copy_layer_keys(const GgufFile& file, GgufMetadata& metadata) {
  constexpr std::array kOwn = {std::string_view("target_layers"),
                               std::string_view("block_size"),
                               std::string_view("attention.causal"),
                               std::string_view("attention.sliding_window"),
                               std::string_view("attention.sliding_window_pattern"),
                               std::string_view("embedding_scale"),
                               std::string_view("logit_scale"),
                               std::string_view("final_logit_softcapping"),
                               std::string_view("rope.dimension_sections")};
  for (const auto& [name, value] : file.metadata()) {
    if (!name.starts_with(kSourceKeys)) continue;
    const std::string_view key = name.substr(kSourceKeys.size());
    if (std::ranges::find(kOwn, key) != kOwn.end()) continue;
    metadata.set(std::string(kQwen3.architecture) + "." + std::string(key), value);
  }
  const std::string activation = std::string(kSourceKeys) + "hidden_act";
  const auto name = file.get_string_or(activation, "silu");
  if (!name) return name.error();
  if (*name == "silu") return {};
  return Error{Errc::unsupported,
               activation + " is '" + std::string(*name) + "'; only silu is supported"};
}

// Name in the bundle; empty for a tensor of another computation.
std::string bundle_name(std::string_view name, const LayerList& list) {
  constexpr std::string_view kSame[] = {"fc.weight", "output_norm.weight", "token_embd.weight",
                                        "output.weight", "rope_freqs.weight"};
  if (std::ranges::find(kSame, name) != std::end(kSame)) return std::string(name);
  if (name == "enc.output_norm.weight") return "fc_norm.weight";
  constexpr std::string_view kBlocks = "blk.";
  if (!name.starts_with(kBlocks)) return {};
  const std::size_t dot = name.find('.', kBlocks.size());
  if (dot == std::string_view::npos) return {};
  const bool is_known = std::ranges::any_of(list.tensors(), [&](const LayerTensor& tensor) {
    return tensor.name == name.substr(dot + 1);
  });
  return is_known ? "layer." + std::string(name.substr(kBlocks.size())) : std::string();
}

Result<void> check_tensors(const GgufFile& file, const DecoderConfig& drafter,
                           const DecoderConfig& target, std::size_t state_count,
                           const DraftTokenTable& tokens) {
  const std::uint32_t dim = drafter.layer.dim;
  TensorView view;
  TensorReader reader(file, "");
  reader.matrix("fc.weight", dim, static_cast<std::uint32_t>(state_count) * dim, view);
  for (const char* name : {"enc.output_norm.weight", "output_norm.weight"}) {
    reader.vector(name, dim, view);
  }
  const std::uint32_t vocabulary = target.vocabulary_count;
  const std::pair<const char*, std::uint32_t> matrices[] = {
      {"token_embd.weight", vocabulary},
      {"output.weight", tokens ? static_cast<std::uint32_t>(tokens->size()) : vocabulary}};
  for (const auto& [name, rows] : matrices) {
    if (file.find_tensor(name) != nullptr) reader.matrix(name, rows, dim, view);
  }
  if (reader.error()) return *reader.error();
  for (std::uint32_t i = 0; i < drafter.layer_count; ++i) {
    const auto layer = read_family_layer(file, "blk." + std::to_string(i) + ".",
                                         kQwen3.architecture, drafter.plan(i));
    if (!layer) return layer.error();
  }
  return {};
}

// Parts of the drafters that were made from DFlash, by their names in both layouts.
Error not_plain(const std::string& part) {
  constexpr std::tuple<std::string_view, const char*, const char*> kOthers[] = {
      {"markov", "DSpark", "a Markov head adds a bias by the token before"},
      {"conf_proj", "DSpark", "a head estimates confidence"},
      {"confidence_head", "DSpark", "a head estimates confidence"},
      {"anchor", "DSpark", "a block's first row predicts too"},
      {"conv", "DFlash2", "its blocks convolve"},
      {"selector", "DFlash2", "it selects among candidates of neighbouring tokens"},
      {"gru", "Domino", "it corrects tokens by those before"},
      {"hc_", "DSpark of DeepSeek V4", "its layers are DeepSeek V4's"}};
  for (const auto& [fragment, kind, reason] : kOthers) {
    if (part.find(fragment) == std::string::npos) continue;
    return {Errc::unsupported, part + " is one of a " + kind + " drafter: " + reason +
                                   ", which is not supported; use a DFlash or JetSpec drafter"};
  }
  return {Errc::unsupported, part +
                                 " does not belong to a DFlash drafter; ignoring it would make "
                                 "drafts bad"};
}

Result<void> add_tensors(const BundleSource& source, const GgufFile& file,
                         const DecoderConfig& drafter, ModelPlan& plan) {
  LayerList list;
  kQwen3.tensors(drafter.plan(0), list);
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string name = bundle_name(tensor.name, list);
    if (name.empty()) return not_plain("the tensor " + std::string(tensor.name));
    PlannedTensor planned = copy_of(tensor, name);
    if (source.type && tensor.dims.size() > 1) {
      planned.info.type = stored_type(*source.type, tensor.dims);
    }
    plan.tensors.push_back(std::move(planned));
  }
  const bool has_head = file.find_tensor("output.weight") != nullptr;
  if (file.find_tensor("token_embd.weight") == nullptr && !has_head) {
    copy_vocabulary(source.target, plan);
  } else if (file.find_tensor("token_embd.weight") == nullptr) {
    plan.tensors.push_back(
        copy_of(*source.target.find_tensor("token_embd.weight"), "token_embd.weight"));
  }
  return {};
}

Result<ModelPlan> plan_gguf(const BundleSource& source) {
  auto file = GgufFile::open(source.drafter);
  if (!file) return file.error();
  const auto target = read_decoder_config(source.target);
  if (!target) return target.error();
  const auto keys = read_block_keys(*file);
  if (!keys) return keys.error();
  ModelPlan plan;
  for (const auto& [name, value] : file->metadata()) {
    const bool is_kept = name == "general.file_type" || name == "general.quantization_version";
    if (is_kept) plan.metadata.set(std::string(name), value);
  }
  if (source.type) set_file_type(plan.metadata, *source.type);
  plan.metadata.set_u32(std::string(kBundleContextLengthKey), target->context_length);
  plan.metadata.set_u32(std::string(kBundleTargetLayerCountKey), target->layer_count);
  if (auto copied = copy_layer_keys(*file, plan.metadata); !copied) return copied.error();
  const auto drafter = read_plan(plan.metadata.keys(), kQwen3);
  if (!drafter) return drafter.error();
  if (auto fits = check_width(*drafter, *target); !fits) return fits.error();
  if (auto set = set_block(*keys, drafter->layer_count, target->layer_count, plan.metadata); !set)
    return set.error();
  if (auto copied = copy_identity(source.target, plan.metadata); !copied) return copied.error();
  const auto tokens = read_draft_table(*file, target->vocabulary_count);
  if (!tokens) return tokens.error();
  if (auto checked = check_tensors(*file, *drafter, *target, keys->states.size(), *tokens);
      !checked) {
    return checked.error();
  }
  if (auto added = add_tensors(source, *file, *drafter, plan); !added) return added.error();
  if (auto set = set_draft_tokens(*tokens, target->vocabulary_count, plan); !set) {
    return set.error();
  }
  plan.files.push_back(std::move(*file));
  return plan;
}

// --- a checkpoint's folder ---

// A key of the block is in "dflash_config", or beside the layers' keys.
json block_member(const json& config, const char* key) {
  const auto nested = config.find("dflash_config");
  if (nested != config.end() && nested->is_object() && nested->contains(key)) {
    return (*nested)[key];
  }
  return config.value(key, json());
}

Result<std::optional<std::uint32_t>> block_u32(const json& config, const char* key) {
  return json_u32(json{{key, block_member(config, key)}}, key);
}

// An id of z-lab is of the layer whose output is read, a state that of the layer after it.
// Speculators list states.
Result<std::vector<std::int32_t>> read_states(const json& config) {
  constexpr const char* kStates = "aux_hidden_state_layer_ids";
  const bool are_states = config.value(kStates, json()).is_array();
  const std::string key = are_states ? kStates : "target_layer_ids";
  const json ids = block_member(config, key.c_str());
  std::vector<std::int32_t> states;
  if (!ids.is_array()) return bad_file('"' + key + "\" is not a list");
  for (const json& id : ids) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kLayerCountMax) {
      return bad_file('"' + key + "\" has an entry that is not a layer");
    }
    states.push_back(id.get<std::int32_t>() + (are_states ? 0 : 1));
  }
  return states;
}

// Whether a block's rows see only earlier ones. Unless a key says so, those of layers with a window
// do.
void read_causal(const json& config, BlockKeys& keys) {
  json all = config.value("is_causal", json());
  for (const char* key : {"causal", "causal_head"}) {
    if (all.is_null()) all = block_member(config, key);
  }
  keys.causal = all == true;
  if (all.is_null())
    keys.causal_windows = block_member(config, "sliding_window_non_causal") != true;
}

Result<void> read_scales(const json& config, BlockKeys& keys) {
  const std::pair<const char*, float*> scales[] = {{"input_embedding_scale", &keys.embedding_scale},
                                                   {"output_multiplier", &keys.logit_scale},
                                                   {"final_logit_softcapping", &keys.logit_cap}};
  for (const auto& [key, field] : scales) {
    const auto value = json_number(json{{key, block_member(config, key)}}, key);
    if (!value) return value.error();
    *field = static_cast<float>(value->value_or(0.0));
  }
  return {};
}

Result<std::vector<bool>> read_windowed(const json& config, bool all, std::uint32_t layer_count) {
  if (all) return std::vector<bool>(layer_count, true);
  const auto types = config.find("layer_types");
  if (types == config.end() || !types->is_array()) {
    return bad_file("\"layer_types\" does not say which layers have the window");
  }
  std::vector<bool> windowed;
  for (const json& type : *types) windowed.push_back(type == "sliding_attention");
  return windowed;
}

Result<BlockKeys> read_block_keys(const json& config, std::uint32_t layer_count) {
  BlockKeys keys;
  auto states = read_states(config);
  if (!states) return states.error();
  keys.states = std::move(*states);
  const auto block_size = block_u32(config, "block_size");
  if (!block_size) return block_size.error();
  const auto mask_token = block_u32(config, "mask_token_id");
  if (!mask_token) return mask_token.error();
  if (!*mask_token) return bad_file("\"mask_token_id\" is missing");
  keys.block_size = block_size->value_or(16);
  keys.mask_token = **mask_token;
  read_causal(config, keys);
  if (auto read = read_scales(config, keys); !read) return read.error();
  const bool all = block_member(config, "use_swa") == true;
  if (!all && config.value("use_sliding_window", json()) != true) return keys;
  const auto own_window = block_u32(config, "swa_window_size");
  if (!own_window) return own_window.error();
  const auto window = json_u32(config, "sliding_window");
  if (!window) return window.error();
  keys.window = own_window->value_or(window->value_or(0));
  if (keys.window == 0) return keys;
  auto windowed = read_windowed(config, all, layer_count);
  if (!windowed) return windowed.error();
  keys.is_windowed = std::move(*windowed);
  return keys;
}

Result<void> refuse_other_keys(const json& config) {
  for (const char* key : {"conv_kernel_size", "selector_rank", "markov_rank", "sample_from_anchor",
                          "gru_hidden_dim", "hc_mult"}) {
    const json value = block_member(config, key);
    const bool is_off = value.is_null() || value == 0 || value == false;
    // Speculators store Domino's settings in any DFlash drafter.
    const bool is_unused = key == std::string_view("gru_hidden_dim") &&
                           config.value("projector_type", json()) != "domino";
    if (is_off || is_unused) continue;
    return not_plain('"' + std::string(key) + '"');
  }
  if (config.value("rope_is_neox_style", json()) == false) {
    return Error{Errc::unsupported, "\"rope_is_neox_style\" false is not supported"};
  }
  return {};
}

Result<void> add_dflash(const CheckpointInput& input, ModelPlan& plan) {
  // Speculators nest the layers' keys.
  json config = input.config;
  const auto nested = config.find("transformer_layer_config");
  if (nested != config.end() && nested->is_object()) {
    const json layers = *nested;
    for (const auto& [key, value] : layers.items()) {
      if (config.value(key, json()).is_null() || key == "architectures") config[key] = value;
    }
  }
  if (auto known = refuse_other_keys(config); !known) return known.error();
  json layers = config;
  for (const char* key : {"use_sliding_window", "sliding_window"}) layers.erase(key);
  layers["architectures"] = {"Qwen3ForCausalLM"};
  auto hf = parse_hf_config(layers, &input.checkpoint);
  if (!hf) return hf.error();
  const DecoderConfig& drafter = hf->decoder;
  if (auto fits = check_width(drafter, input.target); !fits) return fits.error();
  const auto keys = read_block_keys(config, drafter.layer_count);
  if (!keys) return keys.error();
  const auto tokens = read_draft_table(input.checkpoint, input.target.vocabulary_count);
  if (!tokens) return tokens.error();
  const GgufKeys layer_keys = hf->metadata.keys();
  for (const auto& [name, value] : layer_keys.metadata()) {
    plan.metadata.set(std::string(name), value);
  }
  if (auto set = set_block(*keys, drafter.layer_count, input.target.layer_count, plan.metadata);
      !set)
    return set.error();
  if (auto copied = copy_identity(input.file, plan.metadata); !copied) return copied.error();
  if (*tokens) {
    plan.tensors.push_back(
        copy_of(*input.file.find_tensor("token_embd.weight"), "token_embd.weight"));
  } else {
    copy_vocabulary(input.file, plan);
  }
  for (const auto& [name, values] : hf->vectors) {
    if (name == "rope_freqs.weight") add_divisors({.frequency_divisors = values}, "", plan);
  }
  const std::uint64_t dim = drafter.layer.dim;
  const std::uint64_t vocabulary = input.target.vocabulary_count;
  CheckpointReader reader(input.checkpoint, input.type, plan);
  // Copies of the target's, but for a head of chosen rows.
  reader.leave_out("embed_tokens.weight", {vocabulary, dim});
  if (*tokens) {
    reader.add("lm_head.weight", "output.weight", {(*tokens)->size(), dim}, 0);
  } else {
    reader.leave_out("lm_head.weight", {vocabulary, dim});
  }
  leave_out_draft_tokens(reader);
  reader.leave_out_all("verifier_");
  reader.add("fc.weight", "fc.weight", {dim, keys->states.size() * dim}, 0);
  reader.add(kHiddenNorm, "fc_norm.weight", {dim}, 0);
  reader.add("norm.weight", "output_norm.weight", {dim}, 0);
  for (std::uint32_t i = 0; i < drafter.layer_count; ++i) {
    const std::string number = std::to_string(i);
    LayerList list;
    kQwen3.tensors(drafter.plan(i), list);
    reader.add_layer("layers." + number + ".", "layer." + number + ".", list, RopeStyle::halves);
  }
  reader.refuse_others();
  if (reader.error()) return *reader.error();
  return set_draft_tokens(*tokens, input.target.vocabulary_count, plan);
}

}  // namespace

bool is_dflash_source(const std::filesystem::path& drafter) {
  if (std::filesystem::is_directory(drafter)) {
    const auto checkpoint = SafetensorsModel::open(drafter);
    return checkpoint && checkpoint->find(kHiddenNorm) != nullptr &&
           checkpoint->find("fc.weight") != nullptr;
  }
  const auto file = GgufFile::open(drafter);
  if (!file) return false;
  const auto architecture = file->architecture();
  return architecture && *architecture == "dflash";
}

Result<ModelPlan> plan_dflash_bundle(const BundleSource& source) {
  if (std::filesystem::is_directory(source.drafter)) return plan_checkpoint(source, add_dflash);
  return plan_gguf(source);
}

}  // namespace edgedraft
