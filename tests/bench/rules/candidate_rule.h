#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "shared/speculative/draft_tree.h"
#include "shared/speculative/verification.h"
#include "tests/bench/rules/sparse_law.h"

// Speculative sampling: drafts that a drafter drew from a law of its own are accepted such that
// what comes out has the target's law. It is the literature's rule; the default here is another one
// (verification.h), whose answers do not depend on drafts at all.
namespace edgedraft {

// Probabilities by token, which add up to 1.
using DenseLaw = std::vector<double>;

// The turns of a node's children, which were drawn from `draft` one after another, none twice. The
// first is accepted with probability min(1, p / q); if it is not, what p has more than q is left of
// the target's law, the drawn token is left out of the draft's, and the next child has its turn.
//
// Source    Leviathan, Kalman and Matias (2023), algorithm 1; with several children Miao et al.,
//           SpecInfer (2024), algorithm 2
// Cost      O(tokens of the draft's law) a turn, O(vocabulary) for the first rejection and the draw
class CandidateTurns {
 public:
  // Requires  tokens of `draft` are below target.size()
  CandidateTurns(DenseLaw target, const SparseLaw& draft);

  // How likely the child whose turn it is is accepted.
  // Requires  a token of the draft's law that has had no turn
  double odds(std::uint32_t child) const;
  // That child is not accepted. False if nothing is left for any other token: it was certain to be.
  bool reject(std::uint32_t child);

  // The law of the token behind the node, once no child is accepted.
  // Requires  reject() was never false
  DenseLaw rest() &&;

 private:
  struct Drafted {
    std::uint32_t token;
    std::uint16_t weight;  // of the draft's law; 0: it had its turn
    double left;           // of the target's
  };
  double probability(const Drafted& drafted) const {
    return static_cast<double>(drafted.weight) / static_cast<double>(weights_);
  }
  const Drafted& find(std::uint32_t child) const;

  // The target's law: its part of `total_` is a token's probability. Those of the draft's tokens,
  // which alone change, stand apart.
  std::vector<Drafted> drafted_;
  DenseLaw others_;
  double total_ = 1.0;
  std::optional<double> others_total_{};  // nothing before it is wanted
  std::uint64_t weights_ = 0;
};

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
