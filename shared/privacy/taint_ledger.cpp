#include "shared/privacy/taint_ledger.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {

std::string_view to_string(Provenance provenance) {
  switch (provenance) {
    case Provenance::given:
      return "given";
    case Provenance::verified:
      return "verified";
    case Provenance::offline:
      return "offline";
    case Provenance::private_:
      return "private";
  }
  return "unknown";
}

void TaintLedger::append(std::uint32_t token, Provenance provenance) {
  tokens_.push_back(token);
  // Everything after private text is private.
  const bool tainted = !untainted(count() - 1);
  provenance_.push_back(tainted ? Provenance::private_ : provenance);
}

void TaintLedger::truncate(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= tokens_.size());
  tokens_.resize(count);
  provenance_.resize(count);
}

void TaintLedger::confirm(std::uint32_t first, std::uint32_t count) {
  EDGEDRAFT_CHECK(first + count <= tokens_.size());
  for (std::uint32_t i = first; i < first + count; ++i) {
    EDGEDRAFT_CHECK(provenance_[i] == Provenance::offline);
    provenance_[i] = Provenance::verified;
  }
}

bool TaintLedger::untainted(std::uint32_t count) const {
  EDGEDRAFT_CHECK(count <= tokens_.size());
  // Taint never ends, so the last token decides.
  return count == 0 || provenance_[count - 1] != Provenance::private_;
}

std::uint32_t TaintLedger::untainted_count() const {
  const auto first = std::ranges::find(provenance_, Provenance::private_);
  return static_cast<std::uint32_t>(first - provenance_.begin());
}

}  // namespace edgedraft
