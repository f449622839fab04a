#include "shared/drafting/ngram/ngram_drafter.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {

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
