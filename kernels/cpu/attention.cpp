#include "kernels/cpu/attend.h"
#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

void attention(const AttentionArgs& a, const Work& work) {
  for (std::size_t item = work.begin; item < work.end; ++item) {
    const std::size_t row = item / a.heads.kv_heads * kAttentionTileRows;
    const AttendTile tile{.q = {a.q.data + row * a.q.stride, a.q.stride},
                          .keys = a.keys,
                          .values = a.values,
                          .pages = a.pages,
                          .rows = smaller(kAttentionTileRows, a.rows - row),
                          .prefix = a.prefix,
                          .masks = a.masks != nullptr ? a.masks + row * kMaskWords : nullptr,
                          .heads = a.heads,
                          .y = {a.y.data + row * a.y.stride, a.y.stride},
                          .scale = a.scale,
                          .window = a.window,
                          .positions = a.window != 0 ? a.positions + row : nullptr,
                          .sinks = a.sinks};
    attend(tile, item % a.heads.kv_heads, work.scratch);
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
