#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "shared/speculative/draft_tree.h"
#include "shared/types/finish.h"

namespace edgedraft {

// Outcome of one cycle: path.size() + 1 new tokens.
struct VerifiedPath {
  std::vector<std::uint32_t> path;  // accepted rows of the tree, by depth, without the root
  std::uint32_t next = 0;           // the target's own token after them: bonus or correction
  Finish finish = Finish::none;     // about `next`
};

struct VerifyOptions {
  std::uint32_t root_position;  // absolute position of the root token
  std::uint32_t context_count;  // context length: next tokens are at most at context_count - 1
  // The target's token after tree row `row`, which will be at `position`.
  std::function<std::uint32_t(std::uint32_t row, std::uint32_t position)> choose;
  std::function<bool(std::uint32_t token)> is_end;
  // Maximum accepted length; the walk then ends with the target's next token as usual.
  std::uint32_t path_max = std::numeric_limits<std::uint32_t>::max();
};

// Walks from the root: draws the target's token once per node and descends while a child matches.
// For any tree, duplicates included, the output has the target's own distribution. With
// position-keyed draws (Sampler) it equals plain decoding token for token.
//
// Source    EAGLE-2 greedy walk; at T > 0 sample-then-match, one draw per node
// Requires  root_position + 1 < context_count
VerifiedPath verify(const DraftTree& tree, const VerifyOptions& options);

}  // namespace edgedraft
