#include "shared/privacy/safe_tree.h"

#include "shared/base/check.h"

namespace edgedraft {

SafeTree::SafeTree(const TaintLedger& behind, std::span<const std::uint32_t> tokens,
                   std::span<const std::uint8_t> parents)
    : base_count_(behind.count()),
      tokens_(tokens.begin(), tokens.end()),
      parents_(parents.begin(), parents.end()) {
  EDGEDRAFT_CHECK(behind.untainted(behind.count()));
  EDGEDRAFT_CHECK(tokens.size() == parents.size());
}

}  // namespace edgedraft
