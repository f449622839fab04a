#include "shared/constraints/grammar_tokens.h"

#include <cstddef>

namespace edgedraft {
namespace {

// Sets of allowed tokens that are kept, of one bit a token.
constexpr std::size_t kAllowedSetsMax = 256;

}  // namespace

GrammarTokens::GrammarTokens(Grammar grammar, std::shared_ptr<const TokenTexts> texts)
    : automaton_(std::make_shared<const Grammar>(std::move(grammar))), texts_(std::move(texts)) {}

// Goes through the tree of all tokens' bytes, and around what no text begins with.
const std::vector<bool>& GrammarTokens::allowed_in(GrammarAutomaton::State state,
                                                   bool skips_space) {
  const std::pair key(state, skips_space);
  if (const auto known = allowed_.find(key); known != allowed_.end()) return known->second;
  if (allowed_.size() >= kAllowedSetsMax) allowed_.clear();
  std::vector<bool> allowed(texts_->count());
  const auto nodes = texts_->nodes();
  std::vector<GrammarAutomaton::State> path{state};  // behind each byte so far
  for (std::size_t i = 0; i < nodes.size();) {
    const TokenTexts::Node& node = nodes[i];
    path.resize(node.depth);
    const bool skipped = skips_space && node.depth == 1 && node.byte == ' ';
    const GrammarAutomaton::State next =
        skipped ? path.back() : automaton_.next(path.back(), node.byte);
    if (next == GrammarAutomaton::kDead) {
      i += node.size;
      continue;
    }
    path.push_back(next);
    // A space alone would be no text at all, again and again.
    if (!skipped) {
      for (std::uint32_t t = 0; t < node.token_count; ++t) {
        allowed[texts_->tokens()[node.first_token + t]] = true;
      }
    }
    ++i;
  }
  return allowed_.emplace(key, std::move(allowed)).first->second;
}

}  // namespace edgedraft
