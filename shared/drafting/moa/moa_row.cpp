#include "shared/drafting/moa/moa_row.h"

namespace edgedraft {

std::string_view to_string(CutPoint cut) {
  return cut == CutPoint::lsa_mean ? "lsa_mean" : "ca_kv";
}

MoaRowLayout moa_row_layout(const HeadShape& target, const HeadShape& ca, std::uint32_t tli) {
  MoaRowLayout layout{.cut = CutPoint::lsa_mean,
                      .memory_cols = 2 * target.kv_cols(),
                      .tli_layer_cols = 2 * target.kv_cols(),
                      .tli = tli,
                      .scale_groups = {}};
  if (ca.kv_cols() < target.kv_cols()) {
    layout.cut = CutPoint::ca_kv;
    layout.memory_cols = 2 * ca.kv_cols();
    // The scale of keys and values varies between heads.
    layout.scale_groups.assign(2 * ca.kv_heads, ca.head_dim);
  } else {
    layout.scale_groups.assign(1, layout.memory_cols);
  }
  layout.scale_groups.insert(layout.scale_groups.end(), std::size_t{2} * target.kv_heads * tli,
                             target.head_dim);
  return layout;
}

MoaRowLayout moa_row_layout(const MoaConfig& config) {
  return moa_row_layout(config.target_layer.heads, config.cross_attention.heads, config.tli);
}

}  // namespace edgedraft
