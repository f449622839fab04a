#include "client/commands/model_facts.h"

#include <algorithm>
#include <map>

#include "shared/drafting/kinds.h"
#include "shared/drafting/memory_need.h"
#include "shared/model/chat_template.h"
#include "shared/model/families/family.h"
#include "shared/model/fingerprint.h"
#include "shared/model/tokenizer.h"
#include "shared/runtime/decoder.h"
#include "shared/runtime/planning_backend.h"

namespace edgedraft::client {
namespace {

// Descriptive texts only: one of another type counts as missing.
std::string key_text(const GgufFile& file, std::string_view key) {
  const auto text = file.get_string_or(key, "");
  return text ? std::string(*text) : std::string();
}

std::uint64_t element_count(const GgufTensor& tensor) {
  return tensor.rows() * tensor.cols();
}

void count_elements(const GgufFile& file, ModelFacts& facts) {
  std::map<DType, std::uint64_t> counts;
  for (const GgufTensor& tensor : file.tensors()) {
    counts[tensor.type] += element_count(tensor);
    facts.parameters += element_count(tensor);
  }
  facts.types.assign(counts.begin(), counts.end());
  std::ranges::stable_sort(facts.types, std::greater(), &std::pair<DType, std::uint64_t>::second);
}

std::string mixer_name(const LayerPlan& plan) {
  switch (plan.mixer) {
    case Mixer::delta_rule:
      return "gated delta nets";
    case Mixer::convolution:
      return "short convolutions";
    case Mixer::attention:
      break;
  }
  if (plan.window == 0) return "attention";
  return "attention with a window of " + std::to_string(plan.window);
}

std::string expert_text(const DecoderConfig& config) {
  std::uint32_t layers = 0;
  ExpertShape shape;
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    const ExpertShape& experts = config.plan(i).experts;
    if (experts.count == 0) continue;
    ++layers;
    shape = experts;
  }
  if (layers == 0) return {};
  std::string text = "; a token uses " + std::to_string(shape.used) + " of " +
                     std::to_string(shape.count) + " experts";
  if (layers < config.layer_count) text += " in " + std::to_string(layers) + " layers";
  return shape.shared_ffn_dim > 0 ? text + " and a shared one" : text;
}

std::string layer_text(const DecoderConfig& config) {
  std::vector<std::pair<std::string, std::uint32_t>> groups;
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    const std::string name = mixer_name(config.plan(i));
    const auto found = std::ranges::find(groups, name, &decltype(groups)::value_type::first);
    if (found == groups.end()) {
      groups.emplace_back(name, 1);
    } else {
      ++found->second;
    }
  }
  std::string text = std::to_string(config.layer_count) + " layers";
  const char* separator = ": ";
  for (const auto& [name, count] : groups) {
    text += (groups.size() == 1 ? "" : separator + std::to_string(count)) + " of " + name;
    separator = ", ";
  }
  return text + expert_text(config);
}

void count_skipped(const GgufFile& file, const DecoderConfig& config, ModelFacts& facts) {
  for (std::uint32_t i = 0; i < config.other_layer_count; ++i) {
    const std::string prefix = "blk." + std::to_string(config.layer_count + i) + ".";
    for (const GgufTensor& tensor : file.tensors()) {
      if (!tensor.name.starts_with(prefix)) continue;
      ++facts.skipped_tensors;
      facts.skipped_parameters += element_count(tensor);
    }
  }
}

std::uint32_t reported_context(const ModelUse& use, std::uint32_t own) {
  return std::max(use.context_count.value_or(std::min(own, kReportedContextMax)), 1u);
}

// Loads the model, runs one full pass and counts.
ModelMemory target_memory(const DecoderModel& model, const ModelUse& use) {
  ModelMemory memory{.context_count = reported_context(use, model.config.context_length)};
  const auto backend =
      plan_cpu_backend({.threads = use.threads, .meter = std::make_shared<MemoryMeter>()});
  Decoder decoder(*backend, model.config, model.tensors, memory.context_count);
  KvPool::Size pool = decoder.pool_size(0, use.kv_type);
  pool.page_count = pool.pages_for(decoder.slots_max());
  memory.cache = decoder.pooled_bytes(decoder.slots_max(), use.kv_type);
  memory.states = RecurrentStates::bytes(model.config, kRecurrentRowsMax);
  memory.checkpoint = RecurrentStates::copy_bytes(model.config);
  {
    KvPool pages(*backend, pool);
    KvCache cache = decoder.make_cache(pages);
    const std::uint32_t rows = std::min(memory.context_count, kMaskRowsMax);
    // The pool has pages for the whole sequence.
    (void)cache.reserve(rows);
    decoder.append(cache, std::vector<std::uint32_t>(rows));
    (void)decoder.logits(0, rows);
  }
  memory.weights = backend->meter()->held(MemoryMeter::Use::weights);
  memory.working = backend->meter()->held(MemoryMeter::Use::working);
  return memory;
}

ModelMemory drafter_memory(const DrafterModel& drafter, const ModelUse& use) {
  const std::uint32_t own = drafter.facts().context_count;
  const std::uint32_t context_count = std::min(reported_context(use, own), own);
  const auto backend =
      plan_cpu_backend({.threads = use.threads, .meter = std::make_shared<MemoryMeter>()});
  const MemoryNeed need = memory_need(drafter, *backend, context_count, TreeShape{});
  return {.context_count = context_count,
          .weights = need.weights,
          .working = need.scratch,
          .cache = need.cache};
}

std::vector<PossibleDrafter> possible_drafters(const DecoderConfig& target) {
  std::vector<PossibleDrafter> drafters;
  for (const DrafterKind* kind : drafter_kinds()) {
    if (kind->is_bundle == nullptr || kind->is_part_of != nullptr) continue;
    PossibleDrafter& drafter = drafters.emplace_back(std::string(kind->name));
    if (kind->takes_target == nullptr) continue;
    if (const auto taken = kind->takes_target(target); !taken) {
      drafter.reason = taken.error().message;
    }
  }
  return drafters;
}

Result<void> read_target(const ModelUse& use, InspectedModel& model) {
  auto decoder = read_decoder(model.file);
  if (!decoder) return decoder.error();
  ModelFacts& facts = model.facts;
  const DecoderConfig& config = decoder->config;
  facts.layers = layer_text(config);
  facts.context_count = config.context_length;
  facts.vocabulary_count = config.vocabulary_count;
  count_skipped(model.file, config, facts);
  if (auto tokenizer = Tokenizer::read(model.file); !tokenizer) return tokenizer.error();
  facts.memory = target_memory(*decoder, use);
  facts.drafters = possible_drafters(config);
  if (const DrafterKind* own = own_drafter_kind(config)) facts.own_drafter = own->name;
  model.decoder = std::move(*decoder);
  return {};
}

Result<void> read_bundle(const DrafterKind& kind, const ModelUse& use, InspectedModel& model) {
  ModelFacts& facts = model.facts;
  facts.drafter_kind = kind.name;
  const auto target = target_fingerprint_of(model.file);
  if (!target) return target.error();
  facts.target = *target;
  auto drafter = kind.read(model.file);
  if (!drafter) return drafter.error();
  facts.context_count = (*drafter)->facts().context_count;
  facts.vocabulary_count = (*drafter)->facts().vocabulary_count;
  if (auto tokenizer = Tokenizer::read(model.file); !tokenizer) return tokenizer.error();
  facts.memory = drafter_memory(**drafter, use);
  model.drafter = std::move(*drafter);
  return {};
}

// Null for a model by itself.
const DrafterKind* bundle_kind(const GgufFile& file) {
  const auto architecture = file.architecture();
  const auto kind = drafter_kind_of(file);
  if (!architecture || !kind) return nullptr;
  const bool names_target = file.find_value(kTargetFingerprintKey) != nullptr;
  return names_target || !find_family(*architecture) ? *kind : nullptr;
}

void read_template(const GgufFile& file, ModelFacts& facts) {
  const auto source = chat_template_source(file);
  if (!source) return;
  facts.has_template = true;
  if (const auto parsed = ChatTemplate::parse(*source); !parsed) {
    facts.template_failure = parsed.error().message;
  }
}

}  // namespace

Result<InspectedModel> inspect_model(const std::filesystem::path& path, const ModelUse& use) {
  std::error_code ignored;  // GgufFile::open reports it
  if (std::filesystem::is_directory(path, ignored)) {
    return Error{Errc::io, path.string() +
                               " is a folder: give its GGUF files, or make one with `edgedraft "
                               "convert`"};
  }
  auto file = GgufFile::open(path);
  if (!file) return in_file(path, file.error());
  InspectedModel model{.path = path, .file = std::move(*file)};
  ModelFacts& facts = model.facts;
  facts.name = key_text(model.file, "general.name");
  facts.architecture = key_text(model.file, "general.architecture");
  facts.file_bytes = model.file.mapped_bytes();
  facts.tokenizer = key_text(model.file, "tokenizer.ggml.model");
  facts.pre = key_text(model.file, "tokenizer.ggml.pre");
  count_elements(model.file, facts);
  read_template(model.file, facts);
  const DrafterKind* const kind = bundle_kind(model.file);
  const auto read = kind != nullptr ? read_bundle(*kind, use, model) : read_target(use, model);
  if (!read) facts.failure = read.error();
  if (model.file.find_value(kFingerprintKey) != nullptr) {
    if (const auto added = add_fingerprint(model); !added && !facts.failure) {
      facts.failure = added.error();
    }
  }
  return model;
}

Result<void> add_fingerprint(InspectedModel& model) {
  if (model.facts.fingerprint) return {};
  const auto fingerprint = model_fingerprint(model.file);
  if (!fingerprint) return fingerprint.error();
  model.facts.fingerprint = *fingerprint;
  return {};
}

}  // namespace edgedraft::client
