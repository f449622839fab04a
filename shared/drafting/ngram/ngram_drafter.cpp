#include "shared/drafting/ngram/ngram_drafter.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {

bool NgramDrafter::grow(TreeGrowth& growth, const GrowthBudget& /*budget*/) {
  EDGEDRAFT_CHECK(token_count() > 0);
  growth.clear();
  growth.finish();
  TreeShape shape = growth.shape();
  shape.depth = std::min(shape.depth, positions_max_ - std::min(positions_max_, token_count()));
  if (shape.depth > 0) growth.add(tree_(table_, shape));
  return true;
}

}  // namespace edgedraft
