#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/runtime/backend.h"

namespace edgedraft {

// Rows of an expert matmul, grouped by expert on the host, so that a call reads the weights of each
// chosen expert once. Pair r * used + u is row r with its u-th expert, as in ExpertMatmulOp::y.
class ExpertGroups {
 public:
  // Pairs of one expert, consecutive in pairs().
  struct Block {
    std::uint32_t expert;
    std::uint32_t first;
    std::uint32_t count;  // at most kBlockPairsMax
  };
  static constexpr std::uint32_t kBlockPairsMax = 128;

  // Groups the pairs of `experts`, whose elements are at `choices` in host memory. Allocates only
  // if a call is larger than all before. Requires  each choice is an integer below `expert_count`
  void group(const Matrix& experts, const float* choices, std::uint32_t expert_count);

  std::span<const Block> blocks() const { return blocks_; }
  std::span<const std::uint32_t> pairs() const { return pairs_; }
  // True if a block has several pairs.
  bool any_shared() const { return any_shared_; }

 private:
  std::vector<std::uint32_t> ends_;  // per expert, in pairs_
  std::vector<std::uint32_t> pairs_;
  std::vector<Block> blocks_;
  bool any_shared_ = false;
};

}  // namespace edgedraft
