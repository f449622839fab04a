#include "tests/bench/rules/candidate_rule.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

std::uint32_t draw(const DenseDistribution& distribution, double uniform) {
  double left = uniform;
  std::uint32_t last = 0;
  for (std::uint32_t token = 0; token < distribution.size(); ++token) {
    if (distribution[token] <= 0.0) continue;
    last = token;
    left -= distribution[token];
    if (left < 0.0) break;
  }
  return last;
}

}  // namespace

CandidateTurns::CandidateTurns(DenseDistribution target, const SparseDistribution& draft)
    : others_(std::move(target)) {
  for (const SparseDistribution::Entry& entry : draft.entries()) {
    EDGEDRAFT_CHECK(entry.token < others_.size());
    drafted_.push_back({.token = entry.token,
                        .weight = entry.weight,
                        .left = std::exchange(others_[entry.token], 0.0)});
    weights_ += entry.weight;
  }
}

const CandidateTurns::Drafted& CandidateTurns::find(std::uint32_t child) const {
  const auto found = std::ranges::find(drafted_, child, &Drafted::token);
  EDGEDRAFT_CHECK(found != drafted_.end() && found->weight > 0);
  return *found;
}

double CandidateTurns::odds(std::uint32_t child) const {
  const Drafted& drafted = find(child);
  return std::min(1.0, drafted.left / total_ / probability(drafted));
}

bool CandidateTurns::reject(std::uint32_t child) {
  const auto index = static_cast<std::size_t>(&find(child) - drafted_.data());
  if (!others_total_) others_total_ = std::accumulate(others_.begin(), others_.end(), 0.0);
  double total = *others_total_;
  for (Drafted& drafted : drafted_) {
    drafted.left = std::max(0.0, drafted.left - total_ * probability(drafted));
    total += drafted.left;
  }
  total_ = total;
  weights_ -= std::exchange(drafted_[index].weight, std::uint16_t{0});
  return total_ > 0.0;
}

DenseDistribution CandidateTurns::rest() && {
  for (const Drafted& drafted : drafted_) others_[drafted.token] = drafted.left;
  for (double& probability : others_) probability /= total_;
  return std::move(others_);
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
    CandidateTurns turns(options.target(row),
                         children.empty() ? SparseDistribution() : options.draft(row));
    std::size_t child = 0;
    while (child < children.size() && options.uniform() >= turns.odds(children[child])) {
      // reject() fails if the distributions are equal and this child is certain to be accepted.
      // Rounding may leave its odds slightly below 1.
      if (!turns.reject(children[child])) break;
      ++child;
    }
    const bool accepted = child < children.size();
    result.next = accepted ? children[child] : draw(std::move(turns).rest(), options.uniform());
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
