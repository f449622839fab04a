#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "shared/speculative/draft_tree.h"
#include "shared/speculative/sparse_law.h"
#include "shared/speculative/verification.h"

// Speculative sampling: drafts that a drafter drew from a law of its own are accepted such that
// what comes out has the target's law. It is the literature's rule; the default here is another one
// (verification.h), whose answers do not depend on drafts at all.
namespace edgedraft {

// Probabilities by token, which add up to 1.
using DenseLaw = std::vector<double>;

struct CandidateOdds {
  // Of each child, if none before it was accepted.
  std::vector<double> accept;
  // Of the token if none is; empty if one of them is certain to be.
  DenseLaw rest;
};

// A node's children were drawn from `draft` one after another, none twice. The first is accepted
// with probability min(1, p / q); if it is not, what p has more than q is left of the target's law,
// the drawn token is left out of the draft's, and the next child has its turn.
//
// Source    Leviathan, Kalman and Matias (2023), algorithm 1; with several children Miao et al.,
//           SpecInfer (2024), algorithm 2
// Requires  children are of `draft` and differ; tokens of `draft` are below target.size()
CandidateOdds candidate_odds(const DenseLaw& target, const SparseLaw& draft,
                             std::span<const std::uint32_t> children);

struct CandidateOptions {
  std::uint32_t root_position;
  std::uint32_t context_count;
  // The target's law behind row `row` of the tree, with temperature and filters.
  std::function<DenseLaw(std::uint32_t row)> target;
  // That its children were drawn from, in the order of their rows.
  std::function<const SparseLaw&(std::uint32_t row)> draft;
  // In [0, 1), a new number each time.
  std::function<double()> uniform;
  std::function<bool(std::uint32_t token)> is_end;
};

// Walks from the root. Which nodes the tree has must not depend on the tokens that were drawn: to
// leave out children that look unlikely, once they are drawn, would bias the answer.
//
// Requires  root_position + 1 < context_count
VerifiedPath verify_candidates(const DraftTree& tree, const CandidateOptions& options);

}  // namespace edgedraft
