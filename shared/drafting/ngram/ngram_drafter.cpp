#include "shared/drafting/ngram/ngram_drafter.h"

#include <algorithm>

#include "shared/base/check.h"
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

void NgramDrafter::append(std::span<const std::uint32_t> tokens) {
  const std::uint32_t room = positions_max_ - std::min(positions_max_, token_count_);
  table_.append(tokens.first(std::min<std::size_t>(tokens.size(), room)));
  token_count_ += static_cast<std::uint32_t>(tokens.size());
}

void NgramDrafter::truncate(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= token_count_);
  if (count < table_.tokens().size()) table_.truncate(count);
  token_count_ = count;
}

bool NgramDrafter::grow(TreeGrowth& growth, const GrowthBudget& /*budget*/) {
  EDGEDRAFT_CHECK(token_count() > 0);
  growth.clear();
  growth.finish();
  TreeShape shape = growth.shape();
  shape.limit(positions_max_ - std::min(positions_max_, token_count()));
  if (shape.depth > 0) growth.add(tree_(table_, shape));
  return true;
}

}  // namespace edgedraft
