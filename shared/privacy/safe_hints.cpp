#include "shared/privacy/safe_hints.h"

#include <utility>

#include "shared/base/check.h"
#include "shared/types/prefix_hash.h"

namespace edgedraft {

SafeHints::SafeHints(const TaintLedger& behind, std::vector<HintNode> nodes)
    : position_(behind.count()),
      prefix_hash_(edgedraft::prefix_hash(behind.tokens())),
      nodes_(std::move(nodes)) {
  EDGEDRAFT_CHECK(behind.untainted(behind.count()));
}

}  // namespace edgedraft
