#include "shared/drafting/independent/independent_bundle.h"

#include <algorithm>
#include <string>

#include "shared/drafting/bundle_parts.h"
#include "shared/model/tokenizer.h"

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

}  // namespace

Result<void> bind_to_target(const GgufFile& target, const DecoderConfig& config, ModelPlan& plan) {
  const VocabularyArrays own = VocabularyArrays::of(plan.metadata);
  if (own.texts.count > 0 && !same_texts(own, VocabularyArrays::of(target))) {
    return Error{Errc::mismatch,
                 "drafter and target have different tokenizers: an id must stand for the same text "
                 "in both"};
  }
  for (PlannedTensor& tensor : plan.tensors) {
    if (tensor.info.name != "token_embd.weight" && tensor.info.name != "output.weight") continue;
    const std::uint64_t rows = tensor.info.dims.back();
    if (rows == config.vocabulary_count) continue;
    // A file that would double the vocabulary is not of the family, and may be an attack on memory.
    if (rows != own.texts.count || config.vocabulary_count / 2 > rows) {
      return Error{Errc::mismatch, "the drafter has " + std::to_string(rows) +
                                       " tokens, the target " +
                                       std::to_string(config.vocabulary_count)};
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

}  // namespace edgedraft
