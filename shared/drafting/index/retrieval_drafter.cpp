#include "shared/drafting/index/retrieval_drafter.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"
#include "shared/drafting/index/continuation_tree.h"
#include "shared/speculative/tree_operations.h"

namespace edgedraft {

void RetrievalDrafter::append(std::span<const std::uint32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void RetrievalDrafter::truncate(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= tokens_.size());
  tokens_.resize(count);
}

bool RetrievalDrafter::grow(TreeGrowth& growth, const GrowthBudget& /*budget*/) {
  EDGEDRAFT_CHECK(token_count() > 0);
  growth.clear();
  growth.finish();
  TreeShape shape = growth.shape();
  shape.limit(positions_max_ - std::min(positions_max_, token_count()));
  if (shape.depth == 0) return true;
  DraftTree tree;
  for (const CorpusIndex& index : *indexes_) {
    DraftTree found = continuation_tree(index, tokens_, shape);
    tree = tree.node_count() == 0 ? std::move(found) : merge(tree, found, shape.nodes);
  }
  growth.add(tree);
  return true;
}

}  // namespace edgedraft
