#include "shared/privacy/safe_prefix.h"

#include "shared/base/check.h"

namespace edgedraft {

SafePrefix::SafePrefix(const TaintLedger& ledger, std::uint32_t base_count, std::uint32_t count)
    : base_count_(base_count) {
  EDGEDRAFT_CHECK(base_count <= ledger.count() && count <= ledger.count() - base_count);
  EDGEDRAFT_CHECK(ledger.untainted(base_count + count));
  base_hash_ = token_hash(ledger.tokens().first(base_count));
  const auto text = ledger.tokens().subspan(base_count, count);
  tokens_.assign(text.begin(), text.end());
}

}  // namespace edgedraft
