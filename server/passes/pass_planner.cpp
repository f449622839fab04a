#include "server/passes/pass_planner.h"

#include <algorithm>

namespace edgedraft::server {

std::vector<RowShare> PassPlanner::plan(
    std::span<const RowClaim> claims, const std::function<bool(std::size_t claim)>& finds_memory) {
  const auto wants = [](const RowClaim& claim, bool divisible) {
    return claim.divisible == divisible && claim.rows > 0;
  };
  const bool any_prompt = std::any_of(claims.begin(), claims.end(),
                                      [&](const RowClaim& claim) { return wants(claim, true); });
  std::uint32_t left = limits_.pass_rows_max;
  std::uint32_t kept_for_prompts = any_prompt && prompts_first_ ? limits_.prompt_rows : 0;

  std::vector<RowShare> shares;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (!wants(claims[i], false)) continue;
    const std::uint32_t rows = claims[i].rows;
    if (rows > left - kept_for_prompts) break;
    if (!finds_memory(i)) continue;
    shares.push_back({.claim = i, .rows = rows});
    left -= rows;
    // After the first draft, prompts keep their share.
    if (any_prompt) kept_for_prompts = std::min(limits_.prompt_rows, left);
  }
  std::uint32_t for_prompts = shares.empty() ? left : std::min(left, limits_.prompt_rows);
  prompts_first_ = any_prompt && for_prompts == 0;
  for (std::size_t i = 0; i < claims.size() && for_prompts > 0; ++i) {
    if (!wants(claims[i], true)) continue;
    const std::uint32_t rows = std::min(for_prompts, claims[i].rows);
    shares.push_back({.claim = i, .rows = rows});
    for_prompts -= rows;
  }
  return shares;
}

}  // namespace edgedraft::server
