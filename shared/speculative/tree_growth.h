#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "shared/runtime/backend.h"
#include "shared/speculative/draft_tree.h"
#include "shared/speculative/score.h"

namespace edgedraft {

// The size of an EAGLE-2 tree. The defaults are those of the Mixture of Attentions paper.
struct TreeShape {
  std::uint32_t breadth = 8;  // tokens tried per node, and nodes expanded per level
  std::uint32_t depth = 6;    // levels below the root
  std::uint32_t nodes = 62;   // kept of all candidates
  // Levels of runs that are copied from a text, if that is more: they cost no computing. As many as
  // Prompt Lookup Decoding copies.
  std::uint32_t copied = 10;

  std::uint32_t copied_depth() const { return std::max(depth, copied); }
  // No tree of it is deeper.
  void limit(std::uint32_t depth_max) {
    depth = std::min(depth, depth_max);
    copied = std::min(copied, depth_max);
  }
  bool operator==(const TreeShape&) const = default;
};

inline constexpr TreeShape chain_shape(std::uint32_t length) {
  return {.breadth = 1, .depth = length, .nodes = length};
}

inline constexpr std::uint32_t kTreeBreadthMax = 32;
// Guesses wanted of a drafter behind a node where the tree's breadth is chosen from them.
inline constexpr std::uint32_t kGuessesMax = 64;
inline constexpr std::uint32_t kTreeDepthMax = 32;

// True for a shape that a tree can be grown in: every part at least 1, breadth and depth within the
// limits above, nodes within kTreeNodesMax, and (depth - 1) * breadth draft rows below
// kMaskRowsMax.
bool valid(const TreeShape& shape);

// How much one step of growth may cost.
struct GrowthBudget {
  std::uint32_t rows = std::numeric_limits<std::uint32_t>::max();  // nodes whose children are made
};

// A node whose children are wanted, or its draft row alone.
struct GrowthNode {
  std::uint32_t id = 0;     // what TreeGrowth::add() takes as a parent; networks ignore it
  std::uint32_t token = 0;  // of the root, which has id 0, the caller knows it
  std::uint32_t depth = 0;  // 1 for a child of the root
  // The ancestors' draft rows since the last commit, numbered in the order in which next() returned
  // them. The node itself is excluded; the root has no row.
  AncestorMask ancestors{};
};

// Nodes of one level or, where they are grown best first, of several. With `children` their
// children are wanted; without, they have them already, and only their draft rows are missing, for
// the nodes below; a parent then comes before its children.
struct GrowthLevel {
  std::vector<GrowthNode> nodes;
  bool children = true;

  bool empty() const { return nodes.empty(); }
  bool is_root() const { return !nodes.empty() && nodes.front().id == 0; }
};

enum class GrowthOrder : std::uint8_t {
  by_level,    // the best of a level, then those of the next
  best_first,  // the best of all, however deep
};

// A token that may follow, and how likely it is to.
struct DraftGuess {
  std::uint32_t token;
  float log_prob;
};

// A draft tree while it grows: all candidates that were found so far, with their scores, and which
// of them have been expanded. Where candidates come from is the drafter's business; this is the
// structure alone. It may be left and taken up again at any time, cut to a tree at any time, and
// re-rooted behind a verdict.
//
// Two ways to feed it. Level by level, as networks do: ask next() for nodes and give answer() their
// children. All at once, as heads, block drafters and tables do: add() what is known, then
// finish().
//
// Each level expands its `breadth` best candidates, the score of a candidate being the sum of
// log-probabilities along its path. Best first, each step expands the `breadth` best of all that
// are open, so that a device that never waits goes deep where it is sure and wide where it is not.
// The `nodes` best of all candidates are the tree, in the order in which they were found. The
// scores are the drafter's raw log-softmax, so an undisturbed tree is a function of the committed
// tokens and the network's memory alone. However growth is interrupted, the candidates are found in
// the same order.
//
// Source    EAGLE-2, as used in Mixture of Attentions, section 4
class TreeGrowth {
 public:
  // Requires  valid(shape)
  explicit TreeGrowth(const TreeShape& shape, GrowthOrder order = GrowthOrder::by_level);

  const TreeShape& shape() const { return shape_; }
  GrowthOrder order() const { return order_; }
  // The next steps follow another shape; what was found stays. Requires  valid(shape)
  void set_shape(const TreeShape& shape);
  // No level deeper than that is grown or kept: the drafter's context ends there.
  void limit_depth(std::uint32_t depth);

  // What is known of the target's choice behind `path`, the tokens from the root down to a node. It
  // is given the drafter's guesses, likeliest first, and leaves those that may be chosen, with the
  // log probability of it, likeliest first.
  using Choice =
      std::function<void(std::span<const std::uint32_t> path, std::vector<DraftGuess>& guesses)>;
  // From now on; empty: the drafter's guesses stay as they are.
  void set_choice(Choice choice) { choice_ = std::move(choice); }
  const Choice& choice() const { return choice_; }
  // How many continuations of a node answer() is to be given: more than the shape's breadth, if
  // others than the likeliest may be chosen.
  std::uint32_t children_wanted() const { return choice_ ? kGuessesMax : shape_.breadth; }

  // No candidate below that score is expanded. Requires  best first
  void set_floor(Score floor) { floor_ = floor; }
  Score floor() const { return floor_; }

  // The next nodes to expand, at most `count_max`; empty if nothing is left to do. The first is the
  // root alone. Changes nothing: answer() does.
  GrowthLevel next(std::uint32_t count_max = kMaskRowsMax) const;
  // The likeliest continuations of what next() handed out, best first and as many for each node;
  // none if no children were wanted.
  //
  // Shapes    tokens, log_probs [level.nodes.size() * children], a node's side by side
  void answer(const GrowthLevel& level, std::span<const std::uint32_t> tokens,
              std::span<const float> log_probs);

  // A candidate below `parent` (an id; 0 is the root); returns its id. Its children may be added in
  // turn, and next() may hand it out. Log-probabilities above 0 count as 0.
  std::uint32_t add(std::uint32_t token, std::uint32_t parent, float log_prob);
  // All nodes of a tree that hangs from the root.
  void add(const DraftTree& tree);
  // Nothing is left to do, until it is re-rooted or cleared.
  void finish() { finished_ = true; }
  bool done() const { return next(1).empty(); }

  // The best of what was found so far: shape().nodes, or fewer. Closed under ancestors.
  DraftTree tree() const { return tree(shape_.nodes); }
  DraftTree tree(std::uint32_t nodes) const;
  std::uint32_t candidate_count() const { return static_cast<std::uint32_t>(candidates_.size()); }
  // How many nodes were expanded since the growth was made, whatever has become of them.
  std::uint64_t expanded_count() const { return expanded_count_; }
  // So many more were expanded in growths of which add() was given the trees.
  void count_expanded(std::uint64_t nodes) { expanded_count_ += nodes; }

  // How likely the tree took each of `tokens` to be, as long as they follow it from the root: the
  // token's rank among its siblings, from 0, or kNoRank for one that is not among them, which ends
  // the list.
  static constexpr std::uint32_t kNoRank = kTreeBreadthMax;
  struct Rank {
    std::uint32_t rank;
    std::uint32_t of;  // so many that the tree has there

    bool operator==(const Rank&) const = default;
  };
  std::vector<Rank> ranks_along(std::span<const std::uint32_t> tokens) const;

  // Moves the root along `tokens`, the accepted path and the next token: what lies below is kept,
  // with its scores relative to the new root, and growth goes on from there, down to the shape's
  // depth. If the path was no candidate it starts anew. Draft rows are forgotten: they stood behind
  // another root.
  void reroot(std::span<const std::uint32_t> tokens);
  void clear();

  // The owner of the draft rows that the candidates' numbers mean. Growth with other rows forgets
  // the numbers, and next() hands out again those whose rows are needed.
  void bind_rows(std::shared_ptr<const void> owner);
  bool is_bound_to(const std::shared_ptr<const void>& owner) const {
    return owner != nullptr && rows_owner_ == owner;
  }

 private:
  static constexpr std::uint32_t kNoRow = kMaskRowsMax;

  // Its id is its row to its children.
  struct Candidate : DraftNode {
    std::uint32_t depth;
    float log_prob;  // of the token behind its parent
    std::uint32_t row = kNoRow;
    bool expanded = false;
    bool is_whole = false;  // of a tree that was added whole, whose depth its drafter has limited
  };

  void add_chosen(std::uint32_t parent, std::span<const std::uint32_t> tokens,
                  std::span<const float> log_probs);
  // Tokens from the root down to the candidate.
  std::vector<std::uint32_t> path_to(std::uint32_t id) const;
  std::uint32_t depth_max() const;
  std::vector<std::uint32_t> frontier(std::uint32_t depth) const;
  // The candidates that the order expands next, without regard to rows.
  std::vector<std::uint32_t> open() const;
  std::vector<std::uint32_t> best_open() const;
  // These get the next draft rows, in this order.
  std::vector<GrowthNode> nodes(std::span<const std::uint32_t> indices) const;
  // The ancestors of `indices` that have no draft row, parents first.
  std::vector<std::uint32_t> without_row(std::span<const std::uint32_t> indices) const;
  void forget_rows();

  TreeShape shape_;
  GrowthOrder order_;
  Choice choice_;
  Score floor_ = kScoreMin;
  std::uint32_t depth_limit_ = kTreeDepthMax;
  std::vector<Candidate> candidates_;  // a parent before its children
  bool root_expanded_ = false;
  bool finished_ = false;
  std::uint32_t level_ = 1;  // levels above are expanded
  std::uint32_t row_count_ = 0;
  std::uint64_t expanded_count_ = 0;
  std::shared_ptr<const void> rows_owner_;
};

}  // namespace edgedraft
