#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "shared/drafting/drafter.h"
#include "shared/privacy/safe_hints.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// What the server of a run has been told of a tree, and what it has not.
class SentHints {
 public:
  // A run begins: nothing was sent, and ids count from 1.
  void begin();
  // The root moves along these tokens.
  void reroot(std::span<const std::uint32_t> tokens);

  struct News {
    std::uint32_t first = 0;  // id of the first node
    std::vector<HintNode> nodes{};
  };
  // The nodes of a tree below the root that were not sent yet, down to a score; they count as sent.
  News take(const DraftTree& tree, Score floor);

 private:
  static constexpr std::uint32_t kNone = 0;

  struct Node {
    std::uint32_t token = 0;
    std::uint32_t parent = kNone;  // index; the root is node 0
    std::uint32_t id = 0;
  };
  std::uint32_t child(std::uint32_t parent, std::uint32_t token) const;

  std::vector<Node> nodes_{1};
  std::uint32_t next_id_ = 1;
};

// Drafting that does not wait for verdicts: a tree that is grown best first, a step at a time,
// below what the device knows, and moves along with what it is told. What is new in it becomes
// hints.
class DraftAhead {
 public:
  struct Options {
    std::uint32_t breadth;    // nodes expanded per step, and tokens tried of each
    Score floor;              // paths that score less are neither expanded nor sent
    std::uint32_t steps = 2;  // of growth per message, unless the server has run out of hints
  };
  // Requires  the drafter outlives it
  DraftAhead(Drafter& drafter, const Options& options);

  // From now on.
  void set(const Options& options);
  void set_choice(TreeGrowth::Choice choice) { growth_.set_choice(std::move(choice)); }

  // A run begins below the drafter's last token.
  void begin();
  // How likely the drafter took the tokens to be that the server has chosen, as far as it has
  // proposed any (TreeGrowth::ranks_along). To be asked before advance().
  std::vector<TreeGrowth::Rank> ranks_of(std::span<const std::uint32_t> tokens) const {
    return growth_.ranks_along(tokens);
  }
  // The fewest tokens that were tried of any node of the tree, unless the drafter had no more.
  std::uint32_t breadth_min() const { return breadth_min_; }
  // The server has chosen these tokens; the drafter has them already. At most `depth_max` levels
  // are of use below the last of them.
  void advance(std::span<const std::uint32_t> tokens, std::uint32_t depth_max);
  bool done() const { return done_; }
  // A step of growth; returns how many nodes it has expanded, 0 where the drafter had to read a
  // part of the text first. Requires  !done()
  std::uint32_t step();
  // What to send now; no nodes if there is nothing, or if more steps are waited for.
  SentHints::News news();
  // Nothing more is going to be drafted, and news() was not asked since the last step.
  bool holds_news() const { return done_ && steps_ > 0; }

 private:
  Drafter& drafter_;
  Options options_;
  std::uint32_t breadth_min_ = options_.breadth;
  TreeGrowth growth_;
  SentHints sent_;
  bool done_ = true;
  std::uint32_t steps_ = 0;    // since the last message
  bool server_waits_ = false;  // it has no hints, so none is held back
};

}  // namespace edgedraft
