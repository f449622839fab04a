#include "shared/drafting/network_drafter.h"

#include <algorithm>
#include <limits>

#include "shared/base/check.h"

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
  network().commit(std::span(tokens_).subspan(network().committed_count()));
  logits_current_ = true;
  *latest_ = this;
  return true;
}

DraftTree NetworkDrafter::draft(const TreeShape& shape) {
  const std::uint32_t room =
      network().position_count_max() - std::min(network().position_count_max(), token_count());
  if (room == 0 || !run_pending()) return {};
  TreeShape fitting = shape;
  fitting.depth = std::min(shape.depth, room);
  forget_logits();
  return grow_tree(network(), fitting);
}

std::span<const float> NetworkDrafter::next_logits() {
  if (!run_pending()) return {};
  const auto draft_tokens = network().draft_tokens();
  if (draft_tokens.empty()) {
    logits_.resize(network().vocabulary_count());
    network().backend().read(network().logits(), logits_);
    return logits_;
  }
  columns_.resize(draft_tokens.size());
  network().backend().read(network().logits(), columns_);
  logits_.assign(network().vocabulary_count(), -std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < columns_.size(); ++i) logits_[draft_tokens[i]] = columns_[i];
  return logits_;
}

}  // namespace edgedraft
