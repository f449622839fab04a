#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "shared/speculative/draft_tree.h"
#include "shared/speculative/verification.h"
#include "tests/bench/rules/sparse_distribution.h"

// Speculative sampling: drafts drawn from the drafter's own distribution are accepted such that the
// output follows the target's distribution. This is the literature's rule. The product uses another
// one (verification.h), whose answers do not depend on drafts at all.
namespace edgedraft {

// Probabilities by token; they sum to 1.
using DenseDistribution = std::vector<double>;

// Tries a node's children, drawn from `draft` in order without replacement. The first is accepted
// with probability min(1, p / q). If it is rejected, the target's distribution becomes the excess
// of p over q. The token is removed from the draft's distribution, and the next child is tried.
//
// Source    Leviathan, Kalman and Matias (2023), algorithm 1; with several children Miao et al.,
//           SpecInfer (2024), algorithm 2
// Cost      O(tokens of the draft's distribution) per child, O(vocabulary) for the first rejection
//           and the draw
class CandidateTurns {
 public:
  // Requires  tokens of `draft` are below target.size()
  CandidateTurns(DenseDistribution target, const SparseDistribution& draft);

  // The acceptance probability of the current child.
  // Requires  an untried token of the draft's distribution
  double odds(std::uint32_t child) const;
  // Rejects the child. False if no other token has probability left: the child was certain.
  bool reject(std::uint32_t child);

  // The distribution of the next token once every child is rejected.
  // Requires  reject() was never false
  DenseDistribution rest() &&;

 private:
  struct Drafted {
    std::uint32_t token;
    std::uint16_t weight;  // in the draft's distribution; 0: tried
    double left;           // remaining probability of the target
  };
  double probability(const Drafted& drafted) const {
    return static_cast<double>(drafted.weight) / static_cast<double>(weights_);
  }
  const Drafted& find(std::uint32_t child) const;

  // The target's distribution: a token's probability is its share of `total_`. The draft's tokens
  // are stored separately because only they change.
  std::vector<Drafted> drafted_;
  DenseDistribution others_;
  double total_ = 1.0;
  std::optional<double> others_total_{};  // computed when first needed
  std::uint64_t weights_ = 0;
};

struct CandidateOptions {
  std::uint32_t root_position;
  std::uint32_t context_count;
  // The target's distribution after row `row` of the tree, with temperature and filters.
  std::function<DenseDistribution(std::uint32_t row)> target;
  // The distribution from which its children were drawn, in the order of their rows.
  std::function<const SparseDistribution&(std::uint32_t row)> draft;
  // In [0, 1), a new number per call.
  std::function<double()> uniform;
  std::function<bool(std::uint32_t token)> is_end;
};

// Walks from the root. The tree's shape must not depend on the drawn tokens: dropping children that
// look unlikely after the draw would bias the answer.
//
// Requires  root_position + 1 < context_count
VerifiedPath verify_candidates(const DraftTree& tree, const CandidateOptions& options);

}  // namespace edgedraft
