#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "shared/drafting/drafter.h"
#include "shared/privacy/safe_hints.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft::client {

// Nodes of a tree that the server of a run has received.
class SentHints {
 public:
  // Begins a run: nothing was sent, and ids count from 1.
  void begin();
  // Moves the root along these tokens.
  void reroot(std::span<const std::uint32_t> tokens);

  struct Batch {
    std::uint32_t first = 0;  // id of the first node
    std::vector<HintNode> nodes{};
  };
  // Returns the unsent nodes below the root with at least that score, and counts them as sent.
  Batch take(const DraftTree& tree, Score floor);

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

// Drafting that does not wait for verdicts. A tree grows best-first, one step at a time, below the
// known tokens and moves along with each verdict. New nodes become hints.
class DraftAhead {
 public:
  struct Options {
    std::uint32_t breadth;    // nodes expanded per step, and tokens tried per node
    Score floor;              // paths that score less are neither expanded nor sent
    std::uint32_t steps = 2;  // minimum steps per message; ignored if the server is out of hints
  };
  // Requires  the drafter outlives it
  DraftAhead(Drafter& drafter, const Options& options);

  // Sets the options of further steps.
  void set(const Options& options);
  void set_choice(TreeGrowth::Choice choice) { growth_.set_choice(std::move(choice)); }

  // Begins a run below the drafter's last token.
  void begin();
  // Ranks of those of the server's tokens that the drafter proposed (TreeGrowth::ranks_along). Call
  // before advance().
  std::vector<TreeGrowth::Rank> ranks_of(std::span<const std::uint32_t> tokens) const {
    return growth_.ranks_along(tokens);
  }
  // Fewest tokens tried at any node of the tree, except nodes whose candidates ran out.
  std::uint32_t breadth_min() const { return breadth_min_; }
  // Takes the tokens that the server has chosen; the drafter has them already. At most `depth_max`
  // levels below the last of them are useful.
  void advance(std::span<const std::uint32_t> tokens, std::uint32_t depth_max);
  bool done() const { return done_; }
  // Grows one step. Returns the number of nodes expanded; 0 if the drafter first had to read some
  // text.
  // Requires  !done()
  std::uint32_t step();
  // Returns the hints to send now; empty if there are none or more steps must run first.
  SentHints::Batch unsent();
  // True if drafting is done and unsent() was not called since the last step.
  bool holds_news() const { return done_ && steps_ > 0; }

 private:
  Drafter& drafter_;
  Options options_;
  std::uint32_t breadth_min_ = options_.breadth;
  TreeGrowth growth_;
  SentHints sent_;
  bool done_ = true;
  std::uint32_t steps_ = 0;    // since the last message
  bool server_waits_ = false;  // it is out of hints, so none are held back
};

}  // namespace edgedraft::client
