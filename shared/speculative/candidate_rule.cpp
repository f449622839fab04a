#include "shared/speculative/candidate_rule.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

std::uint32_t draw(const DenseLaw& law, double uniform) {
  double left = uniform;
  std::uint32_t last = 0;
  for (std::uint32_t token = 0; token < law.size(); ++token) {
    if (law[token] <= 0.0) continue;
    last = token;
    left -= law[token];
    if (left < 0.0) break;
  }
  return last;
}

}  // namespace

CandidateOdds candidate_odds(const DenseLaw& target, const SparseLaw& draft,
                             std::span<const std::uint32_t> children) {
  CandidateOdds odds{.accept = {}, .rest = target};
  SparseLaw law = draft;
  for (const std::uint32_t child : children) {
    const double drafted = law.probability(child);
    EDGEDRAFT_CHECK(drafted > 0.0 && child < target.size());
    odds.accept.push_back(std::min(1.0, odds.rest[child] / drafted));
    double total = 0.0;
    for (const SparseLaw::Entry& entry : law.entries()) {
      double& rest = odds.rest[entry.token];
      rest = std::max(0.0, rest - law.probability(entry.token));
    }
    for (const double rest : odds.rest) total += rest;
    // Nothing is left where the draft's law was the target's: the child was accepted.
    if (total <= 0.0) {
      odds.rest.clear();
      break;
    }
    for (double& rest : odds.rest) rest /= total;
    law = law.without(child);
  }
  return odds;
}

VerifiedPath verify_candidates(const DraftTree& tree, const CandidateOptions& options) {
  EDGEDRAFT_CHECK(options.root_position + 1 < options.context_count);
  VerifiedPath result;
  std::uint32_t row = 0;
  std::uint32_t position = options.root_position + 1;
  for (;;) {
    std::vector<std::uint32_t> rows;
    std::vector<std::uint32_t> children;
    for (std::uint32_t below = row + 1; below < tree.row_count(); ++below) {
      if (tree.parent(below) != row) continue;
      rows.push_back(below);
      children.push_back(tree.token(below));
    }
    const CandidateOdds odds =
        children.empty() ? CandidateOdds{.accept = {}, .rest = options.target(row)}
                         : candidate_odds(options.target(row), options.draft(row), children);
    std::size_t child = 0;
    while (child < odds.accept.size() && options.uniform() >= odds.accept[child]) ++child;
    // Rounding may leave a child that is certain a little less than that.
    if (child == odds.accept.size() && odds.rest.empty()) --child;
    const bool accepted = child < odds.accept.size();
    result.next = accepted ? children[child] : draw(odds.rest, options.uniform());
    if (options.is_end(result.next)) {
      result.finish = Finish::end_token;
      return result;
    }
    if (position + 1 >= options.context_count) {
      result.finish = Finish::context;
      return result;
    }
    if (!accepted) return result;
    row = rows[child];
    result.path.push_back(row);
    ++position;
  }
}

}  // namespace edgedraft
