#include "shared/drafting/network_drafter.h"

#include <algorithm>
#include <limits>

#include "shared/base/check.h"
#include "shared/drafting/network_growth.h"

namespace edgedraft {

void NetworkDrafter::append(std::span<const std::uint32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void NetworkDrafter::truncate(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= tokens_.size());
  if (count < network().committed_count()) {
    network().truncate(count);
    forget_logits();
  }
  tokens_.resize(count);
}

bool NetworkDrafter::run_pending() {
  EDGEDRAFT_CHECK(!tokens_.empty());
  if (tokens_.size() > network().position_count_max()) return false;
  if (network().committed_count() == tokens_.size()) {
    if (logits_current_ && *latest_ == this) return true;
    network().truncate(token_count() - 1);
  }
  rows_owner_.reset();
  network().commit(std::span(tokens_).subspan(network().committed_count()));
  logits_current_ = true;
  *latest_ = this;
  return true;
}

bool NetworkDrafter::read_part() {
  const std::uint32_t known = network().committed_count();
  if (token_count() - known <= kMaskRowsMax || token_count() > network().position_count_max()) {
    return false;
  }
  forget_logits();
  network().commit(std::span(tokens_).subspan(known, kMaskRowsMax));
  *latest_ = this;
  // Other conversations run next, so finish this part now instead of making them wait for it.
  network().backend().wait();
  return true;
}

bool NetworkDrafter::grow(TreeGrowth& growth, const GrowthBudget& budget) {
  const std::uint32_t positions = network().position_count_max();
  growth.limit_depth(positions - std::min(positions, token_count()));
  if (growth.done()) return true;
  if (budget.rows == 0) return false;
  const bool rows_stand =
      growth.is_bound_to(rows_owner_) && network().committed_count() == token_count();
  if (!rows_stand) {
    if (budget.rows != GrowthBudget{}.rows && read_part()) return false;
    run_pending();
    rows_owner_ = std::make_shared<char>();
    growth.bind_rows(rows_owner_);
  }
  logits_current_ = false;
  *latest_ = this;
  return edgedraft::grow(network(), growth, budget);
}

void NetworkDrafter::reserve_logits() {
  if (!logits_.empty()) return;
  const std::size_t columns = network().draft_tokens().size();
  const std::size_t logits = network().vocabulary_count();
  logits_held_ = HeldMemory(network().backend().meter(), (columns + logits) * sizeof(float));
  columns_.resize(columns);
  logits_.resize(logits);
}

std::span<const float> NetworkDrafter::next_logits() {
  if (!run_pending()) return {};
  reserve_logits();
  const auto draft_tokens = network().draft_tokens();
  if (draft_tokens.empty()) {
    network().backend().read(network().logits(), logits_);
    return logits_;
  }
  network().backend().read(network().logits(), columns_);
  std::ranges::fill(logits_, -std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < columns_.size(); ++i) logits_[draft_tokens[i]] = columns_[i];
  return logits_;
}

}  // namespace edgedraft
