#include "shared/drafting/moa/moa_row.h"

namespace edgedraft {

std::string_view to_string(CutPoint cut) {
  return cut == CutPoint::lsa_mean ? "lsa_mean" : "ca_kv";
}

MoaRowLayout moa_row_layout(const MoaConfig& config) {
  const HeadShape& target = config.target_layer.heads;
  const HeadShape& ca = config.cross_attention.heads;
  MoaRowLayout layout{.cut = CutPoint::lsa_mean,
                      .memory_cols = 2 * target.kv_cols(),
                      .tli_layer_cols = 2 * target.kv_cols(),
                      .tli = config.tli,
                      .scale_groups = {}};
  if (ca.kv_cols() < target.kv_cols()) {
    layout.cut = CutPoint::ca_kv;
    layout.memory_cols = 2 * ca.kv_cols();
    // Keys and values differ in size from head to head.
    layout.scale_groups.assign(2 * ca.kv_heads, ca.head_dim);
  } else {
    layout.scale_groups.assign(1, layout.memory_cols);
  }
  layout.scale_groups.insert(layout.scale_groups.end(),
                             std::size_t{2} * target.kv_heads * config.tli, target.head_dim);
  return layout;
}

}  // namespace edgedraft
