#include "shared/drafting/tree_features.h"

#include <vector>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

HeadShape any_heads(std::uint32_t dim) {
  std::uint32_t head_dim = 256;
  while (dim % head_dim != 0) head_dim -= 2;
  return {.query_heads = dim / head_dim, .kv_heads = dim / head_dim, .head_dim = head_dim};
}

}  // namespace

TreeFeatures::TreeFeatures(Backend& backend, std::uint32_t dim, const Matrix& zeros)
    : backend_(backend), heads_(any_heads(dim)), zeros_(zeros), features_(backend, kSlots, dim) {}

void TreeFeatures::set_root(const Matrix& feature) {
  draft_rows_ = 0;
  backend_.store({.x = feature, .cache = features_.all(), .first = 0});
}

void TreeFeatures::append(const Matrix& features) {
  backend_.store({.x = features, .cache = features_.all(), .first = 1 + draft_rows_});
  draft_rows_ += features.rows;
}

// Attention to a single row copies it.
void TreeFeatures::gather(std::span<const GrowthNode> nodes, const Matrix& features) {
  std::vector<AncestorMask> parents(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::uint32_t parent = nodes[i].ancestors.last_before(kMaskRowsMax);
    EDGEDRAFT_CHECK((parent == kNoParent) == (nodes[i].depth == 1));
    parents[i].set(parent == kNoParent ? 0 : 1 + parent);
  }
  backend_.attention({.q = zeros_.row_range(0, features.rows),
                      .keys = features_.all(),
                      .values = features_.all(),
                      .prefix = 0,
                      .masks = parents,
                      .heads = heads_,
                      .y = features,
                      .scale = heads_.score_scale()});
}

}  // namespace edgedraft
