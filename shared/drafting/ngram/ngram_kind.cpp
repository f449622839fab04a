#include "shared/drafting/ngram/ngram_kind.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "shared/drafting/ngram/ngram_drafter.h"
#include "shared/drafting/ngram/ngram_trees.h"
#include "shared/model/gguf.h"
#include "shared/speculative/tree_operations.h"

namespace edgedraft {
namespace {

// No weights: only how a tree is made, and for how long a conversation.
class NgramWeights final : public DrafterWeights {
 public:
  NgramWeights(NgramDrafter::Tree tree, std::uint32_t positions_max)
      : tree_(tree), positions_max_(positions_max) {}

  std::unique_ptr<Drafter> make_drafter() override {
    return std::make_unique<NgramDrafter>(tree_, positions_max_);
  }
  std::uint64_t drafter_bytes() const override { return 0; }

 private:
  NgramDrafter::Tree tree_;
  std::uint32_t positions_max_;
};

class NgramModel final : public DrafterModel {
 public:
  NgramModel(NgramDrafter::Tree tree, DrafterFacts facts) : tree_(tree), facts_(std::move(facts)) {}

  const DrafterFacts& facts() const override { return facts_; }
  std::unique_ptr<DrafterWeights> load(Backend& /*backend*/,
                                       std::uint32_t positions_max) const override {
    return std::make_unique<NgramWeights>(tree_, positions_max);
  }

 private:
  NgramDrafter::Tree tree_;
  DrafterFacts facts_;
};

// Longer conversations than any current model can hold.
constexpr std::uint32_t kContextLength = 1u << 20;

Result<std::unique_ptr<DrafterModel>> read(const GgufFile& file, NgramDrafter::Tree tree,
                                           const DrafterKind& kind) {
  const auto texts = file.get_strings("tokenizer.ggml.tokens");
  if (!texts) return texts.error();
  const auto architecture = file.architecture();
  if (!architecture) return architecture.error();
  const auto context =
      file.get_u32_or(std::string(*architecture) + ".context_length", kContextLength);
  if (!context) return context.error();
  return std::make_unique<NgramModel>(
      tree, DrafterFacts{.vocabulary_count = static_cast<std::uint32_t>(texts->size()),
                         .context_count = std::min(*context, kContextLength),
                         .pace_name = std::string(kind.name)});
}

// What either finds; a path that both find has the better of its scores.
DraftTree ngram_tree(const NgramTable& table, const TreeShape& shape) {
  return merge(adaptive_tree(table, shape), lookup_tree(table, shape), shape.nodes);
}

}  // namespace

const DrafterKind kLookupKind = {.name = "pld", .read = [](const GgufFile& file) {
                                   return read(file, lookup_tree, kLookupKind);
                                 }};
const DrafterKind kAdaptiveKind = {.name = "anpd", .read = [](const GgufFile& file) {
                                     return read(file, adaptive_tree, kAdaptiveKind);
                                   }};
const DrafterKind kNgramKind = {
    .name = "ngram", .joins_others = true, .read = [](const GgufFile& file) {
      return read(file, ngram_tree, kNgramKind);
    }};

}  // namespace edgedraft
