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

// Size of an EAGLE-2 tree. Defaults are those of the Mixture of Attentions paper.
struct TreeShape {
  std::uint32_t breadth = 8;  // tokens tried per node, and nodes expanded per level
  std::uint32_t depth = 6;    // levels below the root
  std::uint32_t nodes = 62;   // kept out of all candidates
  // Levels for runs copied from a text, if larger than `depth`: they cost no computing. Prompt
  // Lookup Decoding copies as many.
  std::uint32_t copied = 10;

  std::uint32_t copied_depth() const { return std::max(depth, copied); }
  // Limits both depths.
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
// Guesses requested per node if the target's draw selects among them.
inline constexpr std::uint32_t kGuessesMax = 64;
inline constexpr std::uint32_t kTreeDepthMax = 32;

// True if a tree can be grown in this shape. Every part must be at least 1, breadth and depth
// within the limits above, nodes within kTreeNodesMax, and (depth - 1) * breadth draft rows below
// kMaskRowsMax.
bool valid(const TreeShape& shape);

// Cost limit of one growth step.
struct GrowthBudget {
  std::uint32_t rows = std::numeric_limits<std::uint32_t>::max();  // nodes to expand
};

// A node to expand, or to compute only the draft row of.
struct GrowthNode {
  std::uint32_t id = 0;     // parent id for TreeGrowth::add(); networks ignore it
  std::uint32_t token = 0;  // unset for the root (id 0), whose token the caller knows
  std::uint32_t depth = 0;  // 1 for a child of the root
  // The ancestors' draft rows since the last commit, numbered in the order of next(). Excludes the
  // node itself; the root has no row.
  AncestorMask ancestors{};
};

// Nodes of one level or, best first, of several. With `children` they are to be expanded. Without,
// only their draft rows are missing, which nodes below them need; parents come before children.
struct GrowthLevel {
  std::vector<GrowthNode> nodes;
  bool children = true;

  bool empty() const { return nodes.empty(); }
  bool is_root() const { return !nodes.empty() && nodes.front().id == 0; }
};

enum class GrowthOrder : std::uint8_t {
  by_level,    // the best of a level, then those of the next
  best_first,  // the best at any depth
};

// A possible next token and its log probability.
struct DraftGuess {
  std::uint32_t token;
  float log_prob;
};

// A growing draft tree: all candidates so far, their scores, and which have been expanded. The
// drafter supplies candidates. Growth can pause, resume, be cut to a tree at any time, and be
// re-rooted after a verdict.
//
// Two ways to feed it. Level by level, for networks: get nodes from next() and pass their children
// to answer(). All at once, for heads, block drafters and tables: add() everything, then finish().
//
// By level, each step expands the `breadth` best candidates of a level, scored by the sum of log
// probabilities along their paths. Best first, each step expands the `breadth` best open
// candidates. A device that never waits thus drafts deep if it is confident and wide if not. The
// tree is the `nodes` best of all candidates, in the order found. Scores are raw log-softmax
// values, so an undisturbed tree depends only on the committed tokens and the network's memory.
// Interruptions do not change the order of candidates.
//
// Source    EAGLE-2, as used in Mixture of Attentions, section 4
class TreeGrowth {
 public:
  // Requires  valid(shape)
  explicit TreeGrowth(const TreeShape& shape, GrowthOrder order = GrowthOrder::by_level);

  const TreeShape& shape() const { return shape_; }
  GrowthOrder order() const { return order_; }
  // Changes the shape for further steps; keeps the candidates. Requires  valid(shape)
  void set_shape(const TreeShape& shape);
  // Limits levels to the end of the drafter's context.
  void limit_depth(std::uint32_t depth);

  // Predicts the target's choice after `path`, the tokens from the root to a node. Receives the
  // drafter's guesses, likeliest first. Returns those that may be chosen with their log probability
  // of that, likeliest first.
  using Choice =
      std::function<void(std::span<const std::uint32_t> path, std::vector<DraftGuess>& guesses)>;
  // Applies from now on; empty: guesses stay unchanged.
  void set_choice(Choice choice) { choice_ = std::move(choice); }
  const Choice& choice() const { return choice_; }
  // Continuations per node for answer(): more than the breadth if others than the likeliest may be
  // chosen.
  std::uint32_t children_wanted() const { return choice_ ? kGuessesMax : shape_.breadth; }

  // Candidates below that score are not expanded. Requires  best first
  void set_floor(Score floor) { floor_ = floor; }
  Score floor() const { return floor_; }

  // Next nodes to expand, at most `count_max`; empty if done. The first is the root alone. Changes
  // nothing: answer() does.
  GrowthLevel next(std::uint32_t count_max = kMaskRowsMax) const;
  // Passes the likeliest continuations for the nodes of next(), best first, equally many per node;
  // none if no children were requested.
  //
  // Shapes    tokens, log_probs [level.nodes.size() * children], node by node
  void answer(const GrowthLevel& level, std::span<const std::uint32_t> tokens,
              std::span<const float> log_probs);

  // Adds a candidate below `parent` (an id; 0 is the root) and returns its id. Its children may be
  // added too, and next() may return it. Log probabilities above 0 count as 0.
  std::uint32_t add(std::uint32_t token, std::uint32_t parent, float log_prob);
  // Adds all nodes of a tree that starts at the root.
  void add(const DraftTree& tree);
  // Ends growth until re-rooting or clear().
  void finish() { finished_ = true; }
  bool done() const { return next(1).empty(); }

  // The best candidates so far: shape().nodes or fewer. Closed under ancestors.
  DraftTree tree() const { return tree(shape_.nodes); }
  DraftTree tree(std::uint32_t nodes) const;
  std::uint32_t candidate_count() const { return static_cast<std::uint32_t>(candidates_.size()); }
  // Nodes expanded since construction, including those dropped later.
  std::uint64_t expanded_count() const { return expanded_count_; }
  // Adds nodes expanded in other growths whose trees were add()ed.
  void count_expanded(std::uint64_t nodes) { expanded_count_ += nodes; }

  // Rank of each of `tokens` among its siblings, from 0, as long as they follow the tree from the
  // root. A token outside the tree has kNoRank and ends the list.
  static constexpr std::uint32_t kNoRank = kTreeBreadthMax;
  struct Rank {
    std::uint32_t rank;
    std::uint32_t of;  // siblings in the tree

    bool operator==(const Rank&) const = default;
  };
  std::vector<Rank> ranks_along(std::span<const std::uint32_t> tokens) const;

  // Moves the root along `tokens`, the accepted path and the next token. Keeps the subtree, with
  // scores relative to the new root, and grows on, down to the shape's depth. Restarts if the path
  // was not a candidate. Draft rows are dropped: they belong to the old root.
  void reroot(std::span<const std::uint32_t> tokens);
  void clear();

  // Sets the owner of the draft rows. If it changes, row numbers are dropped and next() returns
  // again the nodes whose rows are needed.
  void bind_rows(std::shared_ptr<const void> owner);
  bool is_bound_to(const std::shared_ptr<const void>& owner) const {
    return owner != nullptr && rows_owner_ == owner;
  }

 private:
  static constexpr std::uint32_t kNoRow = kMaskRowsMax;

  // Its id is the row that its children name as parent.
  struct Candidate : DraftNode {
    std::uint32_t depth;
    float log_prob;  // log probability of the token, given its parent
    std::uint32_t row = kNoRow;
    bool expanded = false;
    bool is_whole = false;  // part of a complete tree whose drafter limited the depth
  };

  void add_chosen(std::uint32_t parent, std::span<const std::uint32_t> tokens,
                  std::span<const float> log_probs);
  // Tokens from the root to the candidate.
  std::vector<std::uint32_t> path_to(std::uint32_t id) const;
  std::uint32_t depth_max() const;
  std::vector<std::uint32_t> frontier(std::uint32_t depth) const;
  // Candidates to expand next, ignoring draft rows.
  std::vector<std::uint32_t> open() const;
  std::vector<std::uint32_t> best_open() const;
  // Assigns the next draft rows, in this order.
  std::vector<GrowthNode> nodes(std::span<const std::uint32_t> indices) const;
  // Ancestors of `indices` without a draft row, parents first.
  std::vector<std::uint32_t> without_row(std::span<const std::uint32_t> indices) const;
  void forget_rows();

  TreeShape shape_;
  GrowthOrder order_;
  Choice choice_;
  Score floor_ = kScoreMin;
  std::uint32_t depth_limit_ = kTreeDepthMax;
  std::vector<Candidate> candidates_;  // parents before children
  bool root_expanded_ = false;
  bool finished_ = false;
  std::uint32_t level_ = 1;  // levels above it are expanded
  std::uint32_t row_count_ = 0;
  std::uint64_t expanded_count_ = 0;
  std::shared_ptr<const void> rows_owner_;
};

}  // namespace edgedraft
