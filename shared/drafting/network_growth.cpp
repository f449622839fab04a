#include "shared/drafting/network_growth.h"

#include <algorithm>
#include <cstdint>
#include <vector>

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

}  // namespace edgedraft
