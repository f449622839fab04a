#include "server/proposers/guess_list.h"

#include <utility>

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

}  // namespace edgedraft::server
