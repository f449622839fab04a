#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "shared/protocol/message.h"
#include "shared/speculative/draft_tree.h"
#include "shared/speculative/score.h"

namespace edgedraft::server {

// Fates of hints, by node.
struct HintCounts {
  std::uint64_t taken = 0;         // added to the tree, or already there
  std::uint64_t passed = 0;        // token already chosen by the server
  std::uint64_t contradicted = 0;  // below a token the server rejected
  std::uint64_t unknown = 0;       // unknown parent, repeated id, or token outside the vocabulary
  std::uint64_t evicted = 0;       // replaced by better ones

  bool operator==(const HintCounts&) const = default;
};

// A run's hints as one tree below the last chosen token. For any input in any order it holds the
// `nodes_max` best nodes by score, and up to a quarter more between evictions. Its contents affect
// speed, never the answer.
//
// Cost      add(): O(nodes in the message x siblings), amortized over evictions; advance(): O(n log
//           n)
class HintTree {
 public:
  struct Limits {
    std::uint32_t nodes_max;
    std::uint32_t vocabulary_count;
  };
  // The run's text is `tokens`; the last one is the root.
  // Requires  tokens not empty
  HintTree(std::span<const std::uint32_t> tokens, const Limits& limits);

  // Returns the scores of new nodes, relative to the root.
  std::vector<ScoreSteps> add(const wire::Hints& hints);
  // Adds a path that the server knows for certain. Its nodes have no ids; hints with the same
  // tokens map to them.
  void add_path(std::span<const std::uint32_t> tokens);
  // Moves the root to the last of `tokens`, which the server has chosen.
  void advance(std::span<const std::uint32_t> tokens);

  std::uint32_t node_count() const { return static_cast<std::uint32_t>(nodes_.size() - 1); }
  // The `count` best nodes, best first.
  // Requires  count <= kTreeNodesMax
  DraftTree best(std::uint32_t count) const;

  // Largest id received; 0: none.
  std::uint32_t last_id() const { return last_id_; }
  const HintCounts& counts() const { return counts_; }

 private:
  static constexpr std::uint32_t kNone = 0;

  // Sums of whole-step scores are exact: a path has at most 255 * 1280 steps.
  struct Node : DraftNode {
    std::uint32_t first_child = kNone;
    std::uint32_t next_sibling = kNone;
  };
  // Location of an id: a tree node, or a decided position.
  struct Place {
    bool decided;
    std::uint32_t at;  // position, or node index
  };

  std::uint32_t length() const { return base_ + static_cast<std::uint32_t>(decided_.size()); }
  // Returns the node's score if it is new.
  std::optional<ScoreSteps> add(const wire::Hints& hints, std::size_t index);
  bool knows_prefix(std::uint32_t position, std::uint64_t hash) const;
  std::uint32_t child(std::uint32_t parent, std::uint32_t token) const;
  std::uint32_t append(const DraftNode& node);
  // Shrinks to nodes_max if the slack is used up.
  void evict();
  void forget_old_ids();
  // Keeps these nodes (ascending, closed under ancestors) below a new root.
  void rebuild(std::span<const std::uint32_t> kept, std::uint32_t root);

  Limits limits_;
  // decided_ holds the tokens from position base_ on; hashes_[i] covers the first base_ + i tokens.
  std::uint32_t base_;
  std::vector<std::uint32_t> decided_;
  std::vector<std::uint64_t> hashes_;
  std::vector<Node> nodes_;  // all rows, row 0 the root
  std::map<std::uint32_t, Place> places_;
  std::uint32_t last_id_ = 0;
  HintCounts counts_;
};

}  // namespace edgedraft::server
