#include "shared/constraints/grammar_tokens.h"

#include <cstddef>

namespace edgedraft {
namespace {

// Cached sets of allowed tokens, one bit per token.
constexpr std::size_t kAllowedSetsMax = 256;
// Steps granted per new set, less than a millisecond. A long answer with many states never runs
// out, and one grammar cannot delay all others.
constexpr std::uint64_t kStepsASet = 4096;
// Nodes of the tokens' tree that cost as much as one automaton step: most transitions are table
// look-ups.
constexpr std::uint64_t kNodesAStep = 32;

}  // namespace

GrammarTokens::GrammarTokens(Grammar grammar, std::shared_ptr<const TokenTexts> texts)
    : automaton_(std::make_shared<const Grammar>(std::move(grammar))), texts_(std::move(texts)) {}

std::uint64_t GrammarTokens::steps_taken() const {
  return automaton_.steps_taken() + nodes_seen_ / kNodesAStep;
}

const std::vector<bool>& GrammarTokens::allowed_in(GrammarAutomaton::State state,
                                                   bool skips_space) {
  forget_old_states();
  if (const auto known = allowed_.find({state, skips_space}); known != allowed_.end()) {
    return known->second;
  }
  if (allowed_.size() >= kAllowedSetsMax) allowed_.clear();
  automaton_.allow_steps(kStepsASet);
  auto allowed = explore(state, skips_space, /*alone=*/false);
  if (!allowed) {
    state = automaton_.clear_but(state);
    forget_old_states();
    allowed = explore(state, skips_space, /*alone=*/true);
  }
  if (automaton_.out_of_steps()) return unfinished_ = *std::move(allowed);
  return allowed_.insert_or_assign({state, skips_space}, *std::move(allowed)).first->second;
}

void GrammarTokens::forget_old_states() {
  if (clearings_ == automaton_.clearings()) return;
  clearings_ = automaton_.clearings();
  allowed_.clear();
}

// Walks the tree of all tokens' bytes, skipping subtrees that match no text.
std::optional<std::vector<bool>> GrammarTokens::explore(GrammarAutomaton::State state,
                                                        bool skips_space, bool alone) {
  std::vector<bool> allowed(texts_->count());
  const auto nodes = texts_->nodes();
  std::vector<GrammarAutomaton::State> path{state};  // states after each byte so far
  for (std::size_t i = 0; i < nodes.size();) {
    const TokenTexts::Node& node = nodes[i];
    ++nodes_seen_;
    path.resize(node.depth);
    const bool skipped = skips_space && node.depth == 1 && node.byte == ' ';
    const GrammarAutomaton::State next =
        skipped ? path.back() : automaton_.next(path.back(), node.byte);
    if (next == GrammarAutomaton::kNoRoom && !alone) return std::nullopt;
    if (next == GrammarAutomaton::kDead || next == GrammarAutomaton::kNoRoom) {
      i += node.size;
      continue;
    }
    path.push_back(next);
    // A space alone would add no text, endlessly.
    if (!skipped) {
      for (std::uint32_t t = 0; t < node.token_count; ++t) {
        allowed[texts_->tokens()[node.first_token + t]] = true;
      }
    }
    ++i;
  }
  return allowed;
}

}  // namespace edgedraft
