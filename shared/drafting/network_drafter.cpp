#include "shared/drafting/network_drafter.h"

#include <algorithm>
#include <limits>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

// Answers with the likeliest tokens for each of the network's current logits rows.
void answer(DraftNetwork& network, TreeGrowth& growth, const GrowthLevel& level) {
  const std::uint32_t children = std::min(growth.children_wanted(), network.logits().cols);
  std::vector<std::uint32_t> tokens(level.nodes.size() * children);
  std::vector<float> log_probs(tokens.size());
  network.backend().top_k(
      {.logits = network.logits(), .k = children, .tokens = tokens, .log_probs = log_probs});
  if (const auto draft_tokens = network.draft_tokens(); !draft_tokens.empty()) {
    for (std::uint32_t& token : tokens) token = draft_tokens[token];
  }
  growth.answer(level, tokens, log_probs);
}

}  // namespace

bool grow(DraftNetwork& network, TreeGrowth& growth, const GrowthBudget& budget) {
  std::uint32_t rows_left = budget.rows;
  while (rows_left > 0) {
    const GrowthLevel level = growth.next(rows_left);
    if (level.empty()) return true;
    if (!level.is_root()) {
      using Leave = DraftNetwork::Leave;
      network.expand(level.nodes, level.children ? Leave::logits : Leave::nothing);
    }
    if (level.children) {
      answer(network, growth, level);
      rows_left -= static_cast<std::uint32_t>(level.nodes.size());
    } else {
      // Recomputed rows are free; otherwise a small budget would be spent without progress.
      growth.answer(level, {}, {});
    }
  }
  return growth.done();
}

DraftTree grow_tree(DraftNetwork& network, const TreeShape& shape) {
  TreeGrowth growth(shape);
  grow(network, growth);
  return growth.tree();
}

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
