#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "shared/drafting/moa/moa_tensors.h"

namespace edgedraft {

// Part of the memory sent per position.
enum class CutPoint : std::uint8_t {
  lsa_mean,  // the mean of LSA's rows, 2 * target kv_cols values; the device projects (the paper's)
  ca_kv,     // CA's keys, not yet rotated, and values, 2 * CA kv_cols values; the server projects
};

// Name on the link, e.g. "lsa_mean".
std::string_view to_string(CutPoint cut);

// Layout of the activations of one position:
// memory part, then for each TLI layer: keys (rotated), values.
//
// Source    Mixture of Attentions, Table 7: 2 * E_kv * (TLI + 1) values per position at
//           CutPoint::lsa_mean
struct MoaRowLayout {
  CutPoint cut;
  std::uint32_t memory_cols;
  std::uint32_t tli_layer_cols;  // keys and values of one layer
  std::uint32_t tli;
  // Sizes of the groups that share a scale, in order; they add up to cols().
  std::vector<std::uint32_t> scale_groups;

  std::uint32_t cols() const { return memory_cols + tli * tli_layer_cols; }
  std::uint32_t tli_first_col(std::uint32_t layer) const {
    return memory_cols + layer * tli_layer_cols;
  }
};

// Layout with the cut point that sends fewer bytes; the paper's if equal.
MoaRowLayout moa_row_layout(const HeadShape& target, const HeadShape& ca, std::uint32_t tli);
MoaRowLayout moa_row_layout(const MoaConfig& config);

}  // namespace edgedraft
