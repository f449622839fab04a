#pragma once

#include <cstddef>

#include "kernels/cpu/ops.h"

// Operations around the matmuls of experts. They are small beside those, so they are compiled once
// for all instruction sets and give the same bits on each.
namespace edgedraft::cpu {

inline constexpr std::size_t kExpertsUsedMax = 32;

// Item: a row. NaN sorts lowest.
struct RouteArgs {
  ConstRows logits;
  std::size_t count;  // logits per row
  std::size_t used;   // at most kExpertsUsedMax and count
  Rows experts;
  Rows weights;
};
void route(const RouteArgs& a, const Work& work);

// Item: a row.
struct MixArgs {
  ConstRows x;  // rows row * used .. belong to `row`
  ConstRows weights;
  std::size_t used;
  std::size_t cols;
  Rows y;
};
void mix(const MixArgs& a, const Work& work);

}  // namespace edgedraft::cpu
