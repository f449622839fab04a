#include "shared/drafting/level_drafter.h"

#include <algorithm>
#include <iterator>

#include "shared/base/check.h"

namespace edgedraft {

void LevelDrafter::append(std::span<const std::uint32_t> tokens) {
  if (tokens.empty()) return;
  token_count_ += static_cast<std::uint32_t>(tokens.size());
  forget_guesses();
}

void LevelDrafter::truncate(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= token_count_);
  if (count < token_count_) forget_guesses();
  token_count_ = count;
  drop_activations(count);
}

void LevelDrafter::forget_guesses() {
  made_from_.reset();
  guesses_ = {};
}

std::optional<std::uint32_t> LevelDrafter::newest() const {
  return newest_before(std::max(token_count_, 1u) - 1);
}

std::uint32_t LevelDrafter::passed_guesses() const {
  const auto position = newest();
  if (!position) return guess_count();
  return std::min(guess_count(), token_count_ - 2 - *position);
}

bool LevelDrafter::grow(TreeGrowth& growth, const GrowthBudget& budget) {
  EDGEDRAFT_CHECK(token_count_ > 0);
  const std::uint32_t passed = passed_guesses();
  const std::uint32_t depth_max =
      std::min(guess_count() - passed, positions_max_ - std::min(positions_max_, token_count_));
  growth.limit_depth(depth_max);
  if (!growth.is_bound_to(made_from_)) {
    growth.clear();
    if (made_from_ == nullptr) made_from_ = std::make_shared<char>();
    growth.bind_rows(made_from_);
  }
  if (growth.done()) return true;
  if (budget.rows == 0) return false;
  make_guesses(std::min(growth.children_wanted(), sizes().head_rows()));
  // If more guesses than the breadth are requested, some will be excluded and ranks change.
  const bool any_guess = growth.children_wanted() == growth.shape().breadth;
  if (passed == 0 && any_guess &&
      add_fixed_tree(growth, guesses_, std::min(depth_max, growth.shape().depth))) {
    growth.finish();
    return true;
  }
  return grow_by_level(growth, budget);
}

void LevelDrafter::make_guesses(std::uint32_t per_level) {
  if (guesses_.per_level == per_level) return;
  const std::uint32_t passed = passed_guesses();
  const std::uint32_t levels = guess_count() - passed;
  const std::size_t count = std::size_t{levels} * per_level;
  guesses_ = {.per_level = per_level,
              .tokens = std::vector<std::uint32_t>(count),
              .log_probs = std::vector<float>(count)};
  backend().top_k({.logits = guess(*newest(), passed, levels),
                   .k = per_level,
                   .tokens = guesses_.tokens,
                   .log_probs = guesses_.log_probs});
  const std::vector<std::uint32_t>& draft_tokens = sizes().draft_tokens;
  if (draft_tokens.empty()) return;
  for (std::uint32_t& token : guesses_.tokens) token = draft_tokens[token];
}

bool LevelDrafter::grow_by_level(TreeGrowth& growth, const GrowthBudget& budget) {
  std::uint32_t rows_left = budget.rows;
  while (rows_left > 0) {
    const GrowthLevel level = growth.next(rows_left);
    if (level.empty()) return true;
    std::vector<std::uint32_t> tokens;
    std::vector<float> log_probs;
    for (const GrowthNode& node : level.nodes) {
      if (!level.children) break;  // no per-node state can be missing
      const auto first = static_cast<std::ptrdiff_t>(node.depth) * guesses_.per_level;
      std::copy_n(guesses_.tokens.begin() + first, guesses_.per_level, std::back_inserter(tokens));
      std::copy_n(guesses_.log_probs.begin() + first, guesses_.per_level,
                  std::back_inserter(log_probs));
    }
    growth.answer(level, tokens, log_probs);
    if (level.children) rows_left -= static_cast<std::uint32_t>(level.nodes.size());
  }
  return growth.done();
}

}  // namespace edgedraft
