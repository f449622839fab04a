#include "shared/drafting/multistream/multistream_kind.h"

#include <cstdint>
#include <string>
#include <utility>

#include "shared/base/error.h"
#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/drafting/multistream/multistream_drafter.h"
#include "shared/drafting/network_kind.h"
#include "shared/model/families/checkpoint_reader.h"
#include "shared/model/model_plan.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {
namespace {

std::string embedding_name(std::uint32_t stream) {
  return "embeddings." + std::to_string(stream);
}

std::string adapter_name(std::uint32_t layer, const char* half) {
  return "adapters." + std::to_string(layer) + "." + half + ".weight";
}

Result<MultistreamConfig> infer_config(const CheckpointInput& input) {
  const DecoderConfig& target = input.target;
  const auto made_for = check_made_for(input.config, {{"hidden_size", target.layer.dim},
                                                      {"vocab_size", target.vocabulary_count},
                                                      {"target_layers", target.layer_count}});
  if (!made_for) return made_for.error();
  MultistreamConfig config;
  config.target_layer_count = target.layer_count;
  config.layer = target.layer;
  while (input.checkpoint.find(embedding_name(config.stream_count)) != nullptr) {
    ++config.stream_count;
  }
  while (input.checkpoint.find(adapter_name(config.layer_count, "down")) != nullptr) {
    ++config.layer_count;
  }
  if (config.stream_count > kTreeDepthMax) {
    return Error{Errc::unsupported, "the drafter has " + std::to_string(config.stream_count) +
                                        " streams; at most " + std::to_string(kTreeDepthMax) +
                                        " are supported"};
  }
  if (config.layer_count > target.layer_count) {
    return Error{Errc::mismatch,
                 "the drafter has adapters for " + std::to_string(config.layer_count) +
                     " layers; the target has " + std::to_string(target.layer_count)};
  }
  const auto rank = rows_of(input.checkpoint, adapter_name(0, "down"));
  if (!rank) return rank.error();
  config.layer.ffn_dim = *rank;
  if (auto row = check_row(multistream_groups(config)); !row) return row.error();
  return config;
}

// The target's tensors in its last layers.
void add_layers(const GgufFile& file, const MultistreamConfig& config, ModelPlan& plan) {
  const LayerList list = stream_layer(config.layer);
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    const std::string from = "blk." + std::to_string(config.first_state() + i) + ".";
    const std::string to = "blk." + std::to_string(i) + ".";
    for (const LayerTensor& part : list.tensors()) {
      const GgufTensor* tensor = file.find_tensor(from + std::string(part.name));
      if (tensor != nullptr) plan.tensors.push_back(copy_of(*tensor, to + std::string(part.name)));
    }
  }
}

Result<void> add_streams(const CheckpointInput& input, ModelPlan& plan) {
  const DecoderConfig& target = input.target;
  if (auto plain = check_plain(target); !plain) return plain.error();
  const auto config = infer_config(input);
  if (!config) return config.error();
  plan.metadata.set_string("general.architecture", kMultistreamArchitecture);
  plan.metadata.set_u32(std::string(kBundleVocabularyCountKey), target.vocabulary_count);
  plan.metadata.set_u32(std::string(kMultistreamStreams), config->stream_count);
  plan.metadata.set_u32(std::string(kMultistreamLayers), config->layer_count);
  set_layer(plan.metadata, kMultistreamLayer, config->layer, target.rope.theta, target.rope.style);
  add_divisors(target.rope, "target.", plan);
  if (auto copied = copy_identity(input.file, plan.metadata); !copied) return copied.error();
  if (auto copied = copy_head(input.file, plan); !copied) return copied.error();
  const GgufTensor* norm = input.file.find_tensor("output_norm.weight");
  if (norm != nullptr) plan.tensors.push_back(copy_of(*norm, "output_norm.weight"));
  add_layers(input.file, *config, plan);

  const std::uint64_t dim = target.layer.dim;
  CheckpointReader reader(input.checkpoint, input.type, plan);
  for (std::uint32_t j = 0; j < config->stream_count; ++j) {
    reader.add(embedding_name(j), "stream." + std::to_string(j) + ".embedding", {dim}, 0);
  }
  for (std::uint32_t i = 0; i < config->layer_count; ++i) {
    const std::string to = "blk." + std::to_string(i) + ".adapter_";
    const std::uint64_t rank = config->layer.ffn_dim;
    reader.add(adapter_name(i, "down"), to + "down.weight", {rank, dim}, 0);
    reader.add(adapter_name(i, "up"), to + "up.weight", {dim, rank}, 0);
  }
  reader.refuse_others();
  if (reader.error()) return *reader.error();
  return {};
}

bool is_checkpoint(const SafetensorsModel& checkpoint) {
  return checkpoint.find(embedding_name(0)) != nullptr &&
         checkpoint.find(adapter_name(0, "down")) != nullptr;
}

// Plans the bundle of a folder of train/drafters/multistream.py. Sizes come from the tensors.
//
// Errors    bad_file, unsupported; mismatch: the streams were trained for another target
Result<ModelPlan> plan_streams(const BundleSource& source) {
  return plan_checkpoint(source, add_streams);
}

struct Multistream {
  using Model = MultistreamModel;

  static DrafterFacts facts(const Model& model) {
    const MultistreamConfig& config = model.config;
    // All streams run once per tree.
    std::uint64_t bytes = model.tensors.output.bytes.size();
    for (const LayerTensors& layer : model.tensors.layers) bytes += matrix_bytes(layer);
    for (const auto& adapter : model.tensors.adapters) {
      bytes += adapter.down.bytes.size() + adapter.up.bytes.size();
    }
    const std::string name =
        std::string(kMultistreamKind.name) + "-" + std::to_string(config.layer_count);
    return {.vocabulary_count = config.vocabulary_count,
            .context_count = config.context_length,
            .step_bytes = bytes,
            .tap = name,
            .pace_name = name,
            .target = {.layer_count = config.target_layer_count,
                       .dim = config.layer.dim,
                       .kv_heads = config.layer.heads.kv_heads,
                       .head_dim = config.layer.heads.head_dim}};
  }
  static std::unique_ptr<DrafterWeights> load(const Model& model, Backend& backend,
                                              std::uint32_t positions_max) {
    auto weights =
        std::make_shared<MultistreamWeights>(backend, model.config, model.tensors, positions_max);
    const std::uint64_t bytes = weights->sequence_bytes();
    return share_weights<MultistreamDrafter>(std::move(weights), bytes, positions_max);
  }
  static std::unique_ptr<Tap> make_tap(const Model& model, Backend& backend) {
    return std::make_unique<MultistreamTap>(backend, model.config);
  }
};

}  // namespace

std::unique_ptr<DrafterModel> make_multistream_model(MultistreamModel model) {
  return std::make_unique<NetworkModel<Multistream>>(std::move(model));
}

const DrafterKind kMultistreamKind = {
    .name = "multistream",
    .is_bundle = has_architecture<kMultistreamArchitecture>,
    .read = read_network<Multistream, read_multistream>,
    .is_source = is_checkpoint_folder<is_checkpoint>,
    .plan_bundle = plan_streams,
    .takes_target = check_plain,
    .is_from_target = [](std::string_view tensor) {
      return is_vocabulary(tensor) ||
             (tensor.starts_with("blk.") && tensor.find(".adapter_") == tensor.npos);
    }};

}  // namespace edgedraft
