#include "shared/drafting/ngram/ngram_kind.h"

#include <cstdint>
#include <memory>

#include "shared/drafting/ngram/ngram_drafter.h"
#include "shared/drafting/ngram/ngram_trees.h"
#include "shared/drafting/weightless_model.h"
#include "shared/speculative/tree_operations.h"

namespace edgedraft {
namespace {

Result<std::unique_ptr<DrafterModel>> read(const GgufFile& file, NgramDrafter::Tree tree,
                                           const DrafterKind& kind) {
  return make_weightless_model(file, kind.name,
                               [tree](std::uint32_t positions_max, const auto& meter) {
                                 return std::make_unique<NgramDrafter>(tree, positions_max, meter);
                               });
}

// Merges both trees; a path in both has the better score.
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
