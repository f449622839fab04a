#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "shared/base/finish.h"
#include "shared/speculative/draft_tree.h"

namespace edgedraft {

// The outcome of one cycle: path.size() + 1 tokens are new.
struct VerifiedPath {
  std::vector<std::uint32_t> path;  // accepted rows of the tree, root excluded, by depth
  std::uint32_t next = 0;           // the target's own token behind them: bonus or correction
  Finish finish = Finish::none;     // about `next`
};

struct VerifyOptions {
  std::uint32_t root_position;  // absolute position of the root token
  std::uint32_t context_count;  // positions that exist: next tokens get at most context_count - 1
  // The target's token behind row `row` of the tree, which will stand at `position`.
  std::function<std::uint32_t(std::uint32_t row, std::uint32_t position)> choose;
  std::function<bool(std::uint32_t token)> is_end;
  // Where the walk ends at the latest, with a token of the target's like any other.
  std::uint32_t path_max = std::numeric_limits<std::uint32_t>::max();
};

// Walks from the root: draws the target's token once a node and descends while a child matches. The
// law of the output is the target's own for any tree, duplicates included; with position-keyed
// draws (Sampler) the output is that of plain decoding, token for token.
//
// Source    EAGLE-2 greedy walk; at T > 0 sample-then-match, one draw a node
// Requires  root_position + 1 < context_count
VerifiedPath verify(const DraftTree& tree, const VerifyOptions& options);

}  // namespace edgedraft
