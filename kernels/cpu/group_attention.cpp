#include <cmath>

#include "kernels/cpu/attend.h"
#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

namespace {

ConstCache floats(const ConstRows& rows, std::size_t first) {
  return {reinterpret_cast<const std::byte*>(rows.data + first * rows.stride), rows.stride,
          DType::f32};
}

}  // namespace

// A group's rows are a prefix that all of its rows see.
void group_attention(const GroupAttentionArgs& a, const Work& work) {
  for (std::size_t item = work.begin; item < work.end; ++item) {
    const std::size_t first = item / a.heads.kv_heads * a.group_rows;
    for (std::size_t i = 0; i < a.group_rows; i += kAttentionTileRows) {
      const std::size_t row = first + i;
      const AttendTile tile{.q = {a.q.data + row * a.q.stride, a.q.stride},
                            .keys = floats(a.k, first),
                            .values = floats(a.v, first),
                            .pages = {},
                            .rows = smaller(kAttentionTileRows, a.group_rows - i),
                            .prefix = a.group_rows,
                            .masks = nullptr,
                            .heads = a.heads,
                            .y = {a.y.data + row * a.y.stride, a.y.stride},
                            .scale = 1.0f / std::sqrt(static_cast<float>(a.heads.head_dim)),
                            .window = 0,
                            .positions = nullptr,
                            .sinks = nullptr};
      attend(tile, item % a.heads.kv_heads, work.scratch);
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
