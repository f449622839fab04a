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

namespace edgedraft {

// What became of hints, by node.
struct HintCounts {
  std::uint64_t taken = 0;         // into the tree, or found there
  std::uint64_t passed = 0;        // of a token that the server has chosen in the meantime
  std::uint64_t contradicted = 0;  // below a token that it has not chosen
  std::uint64_t unknown = 0;  // below nothing that is known, sent again, or no token of the target
  std::uint64_t evicted = 0;  // for better ones

  bool operator==(const HintCounts&) const = default;
};

// The hints of a run, as one tree below the last token that the server has chosen. Whatever comes,
// in any order, it holds the `nodes_max` best nodes by score, and a quarter more at most until the
// others are evicted; what it holds decides how fast an answer comes and never what it is.
//
// Cost      add(): O(nodes in the message x siblings), evictions included: one is paid for by the
//           quarter of nodes that came since the one before; advance(): O(n log n)
class HintTree {
 public:
  struct Limits {
    std::uint32_t nodes_max;
    std::uint32_t vocabulary_count;
  };
  // The run stands behind `tokens`, of which the last is the root.
  // Requires  tokens not empty
  HintTree(std::span<const std::uint32_t> tokens, const Limits& limits);

  // Returns the scores of the nodes that are new, as seen from the root.
  std::vector<ScoreSteps> add(const wire::Hints& hints);
  // A path below the root that the server itself holds for certain. Its nodes have no ids: no hint
  // can name them, and one with the same tokens finds them.
  void add_path(std::span<const std::uint32_t> tokens);
  // The server has chosen these behind the root: the last of them is the new one.
  void advance(std::span<const std::uint32_t> tokens);

  std::uint32_t node_count() const { return static_cast<std::uint32_t>(nodes_.size() - 1); }
  // The `count` best nodes, best first.
  // Requires  count <= kTreeNodesMax
  DraftTree best(std::uint32_t count) const;

  // The largest id that has come; 0: none.
  std::uint32_t last_id() const { return last_id_; }
  const HintCounts& counts() const { return counts_; }

 private:
  static constexpr std::uint32_t kNone = 0;

  // Scores are whole steps, whose sums are exact: a path has at most 255 * 1280 of them.
  struct Node : DraftNode {
    std::uint32_t first_child = kNone;
    std::uint32_t next_sibling = kNone;
  };
  // Where the node of an id is: in the tree, or at a position that has been decided.
  struct Place {
    bool decided;
    std::uint32_t at;  // position, or index
  };

  std::uint32_t length() const { return base_ + static_cast<std::uint32_t>(decided_.size()); }
  // The node's score if it is new.
  std::optional<ScoreSteps> add(const wire::Hints& hints, std::size_t index);
  bool knows_prefix(std::uint32_t position, std::uint64_t hash) const;
  std::uint32_t child(std::uint32_t parent, std::uint32_t token) const;
  std::uint32_t append(const DraftNode& node);
  // Back to nodes_max, once there are too many.
  void evict();
  void forget_old_ids();
  // Keeps these nodes, in ascending order and closed under ancestors, below another root.
  void rebuild(std::span<const std::uint32_t> kept, std::uint32_t root);

  Limits limits_;
  // Tokens from position base_ on, and the hashes of the first base_, base_ + 1, ... tokens.
  std::uint32_t base_;
  std::vector<std::uint32_t> decided_;
  std::vector<std::uint64_t> hashes_;
  std::vector<Node> nodes_;  // of rows 0.., the root included
  std::map<std::uint32_t, Place> places_;
  std::uint32_t last_id_ = 0;
  HintCounts counts_;
};

}  // namespace edgedraft
