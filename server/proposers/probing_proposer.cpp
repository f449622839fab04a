#include "server/proposers/probing_proposer.h"

#include <utility>

#include "server/sessions/session_fault.h"
#include "shared/speculative/tree_operations.h"

namespace edgedraft::server {

void GuessList::add(Guess guess) {
  const std::size_t length = std::min(guess.tokens.size(), length_max_);
  if (length == 0 || full()) return;
  guess.tokens.resize(length);
  guess.log_probs.resize(length);
  if (std::ranges::find(guesses_, guess.tokens, &Guess::tokens) != guesses_.end()) return;
  guesses_.push_back(std::move(guess));
}

void GuessList::add(const DraftTree& tree) {
  std::vector<bool> has_children(tree.row_count());
  for (const DraftNode& node : tree.nodes()) has_children[node.parent] = true;
  for (std::uint32_t leaf = 1; leaf < tree.row_count() && !full(); ++leaf) {
    if (has_children[leaf]) continue;
    Guess path;
    for (std::uint32_t row = leaf; row != 0; row = tree.parent(row)) {
      path.tokens.push_back(tree.token(row));
      path.log_probs.push_back(relative_score(tree.score(row), tree.score(tree.parent(row))));
    }
    std::ranges::reverse(path.tokens);
    std::ranges::reverse(path.log_probs);
    add(std::move(path));
  }
}

DraftTree GuessList::tree(std::uint32_t nodes_max) const {
  DraftTree tree;
  for (const Guess& guess : guesses_) {
    std::uint32_t row = 0;
    for (std::size_t i = 0; i < guess.tokens.size(); ++i) {
      const std::uint32_t known = tree.child(row, guess.tokens[i]);
      if (known == 0 && tree.node_count() == kTreeNodesMax) break;
      row =
          known != 0 ? known : tree.add(guess.tokens[i], row, tree.score(row) + guess.log_probs[i]);
    }
  }
  return cut(tree, nodes_max);
}

ProbingProposer::ProbingProposer(std::unique_ptr<ProbingMethod> method,
                                 std::unique_ptr<SessionProposer> filler)
    : method_(std::move(method)), filler_(std::move(filler)) {}

Proposal ProbingProposer::propose(const TargetSession& session, const ProposalLimits& limits) {
  take_answer(session);
  Proposal proposal;
  if (limits.tree.nodes > 0) proposal.tree = guesses(session, limits.tree);
  if (limits.probe_rows > 0) proposal.probes = probes(session, limits.probe_rows);
  return proposal;
}

// The pass may not have run, or a prompt may have replaced the queried text.
void ProbingProposer::take_answer(const TargetSession& session) {
  const ProbeAnswer& answer = session.probe_answer();
  if (!asked_ || answer.id != asked_->id) return;
  EDGEDRAFT_SESSION_CHECK(answer.tokens.size() == asked_->count);
  method_->learn(asked_->root, answer.tokens);
  asked_.reset();
}

DraftTree ProbingProposer::guesses(const TargetSession& session, const TreeShape& shape) {
  GuessList guesses(method_->guesses_max(),
                    std::min<std::size_t>(method_->guess_length_max(), shape.depth));
  method_->guess(session.tokens(), guesses);
  if (filler_ && !guesses.full()) {
    guesses.add(filler_->propose(session, {.tree = shape}).tree);
  }
  return guesses.tree(shape.nodes);
}

Probes ProbingProposer::probes(const TargetSession& session, std::uint32_t rows_max) {
  const auto tokens = session.tokens();
  const auto depth_max =
      session.context_count() - std::min<std::size_t>(tokens.size(), session.context_count());
  Probes probes = method_->ask(tokens, rows_max, static_cast<std::uint32_t>(depth_max));
  if (probes.empty()) return {};
  probes.id = ++last_id_;
  asked_ = {.id = last_id_, .root = tokens.back(), .count = probes.asked_count};
  return probes;
}

}  // namespace edgedraft::server
