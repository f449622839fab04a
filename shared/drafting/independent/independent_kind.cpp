#include "shared/drafting/independent/independent_kind.h"

#include <algorithm>
#include <string>
#include <utility>

#include "shared/base/error.h"
#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/independent/independent_network.h"
#include "shared/drafting/network_kind.h"
#include "shared/model/config.h"
#include "shared/model/convert/convert.h"
#include "shared/model/families/family.h"
#include "shared/model/gguf.h"
#include "shared/model/model_plan.h"
#include "shared/model/tokenizer.h"
#include "shared/runtime/kv_cache.h"

namespace edgedraft {
namespace {

// Elements of an array; empty if the key is missing or of another type.
struct Elements {
  std::uint64_t count = 0;
  ByteView bytes;
};
Elements elements_of(const GgufMetadata& metadata, const char* key) {
  constexpr std::size_t kHeadBytes = sizeof(std::uint32_t) + sizeof(std::uint64_t);
  const auto found = metadata.values().find(key);
  if (found == metadata.values().end() || found->second.type != GgufType::array) return {};
  const ByteView bytes = found->second.bytes;
  return {load_le<std::uint64_t>(&bytes[sizeof(std::uint32_t)]), bytes.subspan(kHeadBytes)};
}
Elements elements_of(const GgufFile& file, const char* key) {
  const GgufValue* value = file.find_value(key);
  if (value == nullptr || value->type != GgufType::array) return {};
  return {value->count, value->bytes};
}

struct VocabularyArrays {
  Elements texts;
  Elements types;

  template <class Source>
  static VocabularyArrays of(const Source& source) {
    return {elements_of(source, "tokenizer.ggml.tokens"),
            elements_of(source, "tokenizer.ggml.token_type")};
  }

  // Number of entries before the padding.
  std::uint64_t used_count() const {
    std::uint64_t count = texts.count;
    if (types.bytes.size() / sizeof(std::int32_t) < count) return count;
    while (count > 0 && load_le<std::int32_t>(&types.bytes[(count - 1) * sizeof(std::int32_t)]) ==
                            static_cast<std::int32_t>(TokenType::unused)) {
      --count;
    }
    return count;
  }
};

// Texts are concatenated, so equal prefixes have equal bytes.
bool same_texts(const VocabularyArrays& a, const VocabularyArrays& b) {
  const std::uint64_t both = std::min(a.texts.count, b.texts.count);
  if (a.used_count() > both || b.used_count() > both) return false;
  const std::size_t bytes = std::min(a.texts.bytes.size(), b.texts.bytes.size());
  return std::ranges::equal(a.texts.bytes.first(bytes), b.texts.bytes.first(bytes));
}

Result<void> check_texts(const VocabularyArrays& own, const GgufFile& target) {
  if (same_texts(own, VocabularyArrays::of(target))) return {};
  return Error{Errc::mismatch,
               "drafter and target have different tokenizers: an id must stand for the same text "
               "in both"};
}

Error different_counts(std::uint64_t rows, std::uint64_t target_rows) {
  return {Errc::mismatch, "the drafter has " + std::to_string(rows) + " tokens, the target " +
                              std::to_string(target_rows)};
}

// A file that would double the vocabulary is not of the family, and may be an attack on memory.
Result<void> check_counts(std::uint64_t rows, std::uint64_t target_rows) {
  if (target_rows / 2 <= rows) return {};
  return different_counts(rows, target_rows);
}

void resize_rows(PlannedTensor& tensor, std::uint64_t count, ModelPlan& plan) {
  const std::uint64_t had = tensor.info.dims.back();
  const std::size_t row = tensor.source.size() / had;
  if (count <= had) {
    tensor.source = tensor.source.first(count * row);
  } else {
    Bytes& rows = plan.made.emplace_back();
    rows.reserve(count * row);
    rows.assign(tensor.source.begin(), tensor.source.end());
    const ByteView last = tensor.source.last(row);
    while (rows.size() < count * row) rows.insert(rows.end(), last.begin(), last.end());
    tensor.source = rows;
  }
  tensor.info.dims.back() = count;
}

// Turns the plan of an ordinary model into a drafter for `target` and gives it the target's
// tokenizer. Both must have the same text for each id.
//
// Models of a family may pad their vocabularies to different sizes (Qwen2.5: 151,936 tokens up to
// 3B, 152,064 from 7B on). Then the last rows of the drafter's embedding and head are cut, or the
// last one is repeated: a padding row, which a trained model does not propose.
//
// Errors    mismatch: the vocabularies differ in more than padding
Result<void> bind_to_target(const GgufFile& target, const DecoderConfig& config, ModelPlan& plan) {
  const VocabularyArrays own = VocabularyArrays::of(plan.metadata);
  if (own.texts.count > 0) {
    if (auto checked = check_texts(own, target); !checked) return checked.error();
  }
  for (PlannedTensor& tensor : plan.tensors) {
    if (tensor.info.name != "token_embd.weight" && tensor.info.name != "output.weight") continue;
    const std::uint64_t rows = tensor.info.dims.back();
    if (rows == config.vocabulary_count) continue;
    if (rows != own.texts.count) return different_counts(rows, config.vocabulary_count);
    if (auto checked = check_counts(rows, config.vocabulary_count); !checked) {
      return checked.error();
    }
    resize_rows(tensor, config.vocabulary_count, plan);
  }
  for (const auto& [key, value] : plan.metadata.values()) {
    if (!key.ends_with(".vocab_size")) continue;
    plan.metadata.set_u32(key, config.vocabulary_count);
    break;
  }
  return copy_identity(target, plan.metadata);
}

struct Independent {
  using Model = DecoderModel;

  static DrafterFacts facts(const Model& model) {
    const DecoderTensors& t = model.tensors;
    std::uint64_t bytes =
        t.output.value_or(t.token_embd).bytes.size() + t.layer_embd_projection.bytes.size();
    for (const LayerTensors& layer : t.layers) bytes += matrix_bytes(layer);
    return {.vocabulary_count = model.config.vocabulary_count,
            .context_count = model.config.context_length,
            .step_bytes = bytes,
            .tap = {},
            .pace_name = std::string(kIndependentKind.name)};
  }
  static std::unique_ptr<DrafterWeights> load(const Model& model, Backend& backend,
                                              std::uint32_t positions_max) {
    auto decoder = std::make_shared<Decoder>(backend, model.config, model.tensors, positions_max);
    const KvCache::Size cache{.kv_cols = model.config.kv_cols(),
                              .capacity = decoder->slots_max(),
                              .type = backend.drafter_cache_type()};
    const std::uint64_t states = RecurrentStates::bytes(model.config, kMaskRowsMax);
    return share_weights<IndependentDrafter>(std::move(decoder), cache.bytes() + states);
  }
  static std::unique_ptr<Tap> make_tap(const Model& /*model*/, Backend& /*backend*/) {
    return nullptr;
  }
};

Result<void> takes_model(const GgufFile& target, const GgufFile& model) {
  const VocabularyArrays own = VocabularyArrays::of(model);
  if (auto checked = check_texts(own, target); !checked) return checked.error();
  return check_counts(own.texts.count, VocabularyArrays::of(target).texts.count);
}

Result<ModelPlan> plan_bundle(const BundleSource& source) {
  const auto config = read_decoder_config(source.target);
  if (!config) return config.error();
  auto plan = plan_model(source.drafter, source.type);
  if (!plan) return plan.error();
  if (auto bound = bind_to_target(source.target, *config, *plan); !bound) return bound.error();
  return plan;
}

}  // namespace

std::unique_ptr<DrafterModel> make_independent_model(DecoderModel model) {
  return std::make_unique<NetworkModel<Independent>>(std::move(model));
}

const DrafterKind kIndependentKind = {
    .name = "independent",
    .is_bundle =
        [](const GgufFile& file) {
          const auto architecture = file.architecture();
          return architecture && find_family(*architecture).has_value();
        },
    .read = read_network<Independent, read_draft_decoder>,
    // Reading reports unsuitable folders and files by name.
    .is_source = [](const std::filesystem::path& /*drafter*/) { return true; },
    .plan_bundle = plan_bundle,
    .takes_model = takes_model};

}  // namespace edgedraft
