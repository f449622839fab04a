#pragma once

#include <cstdint>
#include <span>

#include "shared/runtime/layer.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// Features of a growing tree's root and draft rows, of which each node reads its parent's.
class TreeFeatures {
 public:
  // `zeros`: for gather(); several trees may share them. Shapes    zeros [kMaskRowsMax, dim]
  // Requires  dim is even
  TreeFeatures(Backend& backend, std::uint32_t dim, const Matrix& zeros);

  static std::uint64_t bytes(std::uint32_t dim) {
    return std::uint64_t{kSlots} * dim * sizeof(float);
  }

  // Drops all draft rows. Shapes    feature [1, dim]
  void set_root(const Matrix& feature);
  // Features of the next draft rows. Shapes    features [n, dim]
  void append(const Matrix& features);
  std::uint32_t draft_rows() const { return draft_rows_; }
  // Those of the nodes' parents. Shapes    features [nodes, dim]
  void gather(std::span<const GrowthNode> nodes, const Matrix& features);

 private:
  static constexpr std::uint32_t kSlots = kMaskRowsMax + 1;

  Backend& backend_;
  HeadShape heads_;  // the columns of a feature, as heads
  Matrix zeros_;
  OwnedMatrix features_;
  std::uint32_t draft_rows_ = 0;
};

}  // namespace edgedraft
