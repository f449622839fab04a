#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "shared/speculative/draft_tree.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// What proposes tokens on the device. It holds the same tokens as the conversation: verified ones,
// and behind them those that it wrote itself while the server was away.
class Drafter {
 public:
  virtual ~Drafter() = default;

  virtual std::uint32_t token_count() const = 0;
  virtual void append(std::span<const std::uint32_t> tokens) = 0;
  // Forgets the tokens from `count` on, and the activations of their positions.
  virtual void truncate(std::uint32_t count) = 0;

  // Values per position that the server's tap sends; 0 for a drafter that needs tokens alone.
  virtual std::uint32_t activation_cols() const { return 0; }
  // Activations of positions first, first + 1, ..., as the tap made them, in any order of calls.
  // Shapes    rows [n * activation_cols()]
  virtual void add_activations(std::uint32_t /*first*/, std::span<const float> /*rows*/) {}
  // Forgets those of positions from `first` on: they come again.
  virtual void drop_activations(std::uint32_t /*first*/) {}

  // Goes on growing a tree below the last token: true if it is done, false if the budget was spent
  // first, maybe on tokens that had to be read before. It may be called again and goes on where it
  // stopped; steps that were interrupted find what one step would have found. Fewer levels, or
  // none, are grown if the context ends there.
  //
  // A network expands the growth's nodes level by level (network_growth.h). A drafter that makes
  // all levels at once, heads or a block, runs once, answers every level of growth.next() from what
  // it made, or adds its own candidates and calls growth.finish(). A table adds its candidates and
  // finishes, too; what costs nothing needs no budget. Those that cannot go on from a growth that
  // was re-rooted clear it first.
  //
  // Tokens and activations may come between two calls; if tokens came, the growth has to be
  // re-rooted along them. Activations that come change the candidates found from then on.
  //
  // Requires a token.
  virtual bool grow(TreeGrowth& growth, const GrowthBudget& budget) = 0;
  // A tree in one step.
  DraftTree draft(const TreeShape& shape, TreeGrowth::Choice choice = {}) {
    TreeGrowth growth(shape);
    growth.set_choice(std::move(choice));
    grow(growth, {});
    return growth.tree();
  }
  // The drafter's own logits behind the last token, for writing on without the server: of the whole
  // vocabulary, -inf for tokens that it cannot propose. Valid until the next call; empty if the
  // context is full, or for a drafter that has none. Requires a token.
  virtual std::span<const float> next_logits() = 0;
};

}  // namespace edgedraft
