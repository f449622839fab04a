#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft {

// A node of a fixed draft tree. `parent` is a row as in DraftTree (0 is the root, row i + 1 is node
// i). The token is guess number `rank` of the head for its depth.
//
// Source    MEDUSA, section 3.3 (sparse tree)
struct MedusaChoice {
  std::uint32_t parent;
  std::uint32_t rank;

  bool operator==(const MedusaChoice&) const = default;
};

// Builds a tree from its nodes' paths of ranks, as checkpoints list them: (0), (0, 0), (1), ...
// Errors    bad_file: too many nodes, a rank out of range, a duplicate path, a path without its
//           prefix, or one longer than the number of heads
Result<std::vector<MedusaChoice>> tree_of_paths(std::vector<std::vector<std::uint32_t>> paths,
                                                std::uint32_t head_count);

// As above, from a file's arrays. Errors    as above; a parent that does not come first
Result<std::vector<MedusaChoice>> tree_of_arrays(std::span<const std::int32_t> parents,
                                                 std::span<const std::int32_t> ranks,
                                                 std::uint32_t head_count);

}  // namespace edgedraft
