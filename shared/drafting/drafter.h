#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "shared/speculative/draft_tree.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// Rows of a client's prediction of its answer.
struct PredictionCounts {
  std::uint32_t proposed = 0;
  std::uint32_t accepted = 0;

  std::uint32_t rejected() const { return proposed - accepted; }
};

// Proposes tokens on the device. Holds the conversation's tokens: verified ones, followed by those
// that it wrote itself while the server was away.
class Drafter {
 public:
  virtual ~Drafter() = default;

  virtual std::uint32_t token_count() const = 0;
  virtual void append(std::span<const std::uint32_t> tokens) = 0;
  // Drops the tokens from `count` on, and the activations of their positions.
  virtual void truncate(std::uint32_t count) = 0;

  // Values per position from the server's tap; 0 for a drafter that only needs tokens.
  virtual std::uint32_t activation_cols() const { return 0; }
  // Adds the tap's activations of positions first, first + 1, ...; calls may come in any order.
  // Shapes    rows [n * activation_cols()]
  virtual void add_activations(std::uint32_t /*first*/, std::span<const float> /*rows*/) {}
  // Drops activations of positions from `first` on; they will be sent again.
  virtual void drop_activations(std::uint32_t /*first*/) {}

  // The answer after the current tokens may be much like these (PredictedDrafter). Drafters of
  // their own text ignore it.
  virtual void predict(std::vector<std::uint32_t> /*answer*/) {}
  // Counts since the last predict().
  virtual PredictionCounts prediction_counts() const { return {}; }

  // Grows a tree below the last token. Returns true when it is done, false if the budget ran out
  // first, perhaps while reading tokens. Call again to continue; interrupted steps find the same
  // candidates as one step. The end of the context limits the levels.
  //
  // A network expands the growth's nodes level by level (network_growth.h). Heads or block drafters
  // compute all levels at once: they answer every level of growth.next() from that, or add their
  // own candidates and call growth.finish(). A table adds its candidates and finishes; being free,
  // it needs no budget. A drafter that cannot continue a re-rooted growth clears it first.
  //
  // Tokens and activations may arrive between calls; after tokens, re-root the growth along them.
  // Activations affect only candidates found later.
  //
  // Requires  at least one token
  virtual bool grow(TreeGrowth& growth, const GrowthBudget& budget) = 0;
  // Drafts a whole tree at once.
  DraftTree draft(const TreeShape& shape, TreeGrowth::Choice choice = {}) {
    TreeGrowth growth(shape);
    growth.set_choice(std::move(choice));
    grow(growth, {});
    return growth.tree();
  }
  // The drafter's logits after the last token, for writing without the server: the whole
  // vocabulary, -inf for tokens that it cannot propose. Valid until the next call. Empty if the
  // context is full or the drafter has none. Requires a token.
  virtual std::span<const float> next_logits() = 0;
};

}  // namespace edgedraft
