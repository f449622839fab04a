#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/packed.h"
#include "shared/runtime/cpu_memory.h"
#include "shared/runtime/expert_groups.h"
#include "shared/tensor/coded_blocks.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// Recodes and packs one panel of a coded type, whose args.weight is as in the file.
inline void pack_codes(const cpu::PackArgs& args, std::size_t panel) {
  const std::size_t first = panel * cpu::kPanelOutputs;
  const std::size_t outputs = std::min(cpu::kPanelOutputs, args.outputs - first);
  const std::size_t row = row_bytes(args.type, args.inputs).value();
  const Bytes weight = coded(args.type, {args.weight + first * row, outputs * row});
  cpu::PackArgs one = args;
  one.weight = weight.data();
  one.outputs = outputs;
  one.panels += panel * cpu::packed_bytes(args.type, cpu::kPanelOutputs, args.inputs);
  cpu::pack_panels(one, 0, 1);
}

// Packs panels begin..end-1 of a matrix.
inline void pack_matrix(const cpu::PackArgs& args, std::size_t begin, std::size_t end) {
  if (!is_coded(args.type)) return cpu::pack_panels(args, begin, end);
  for (std::size_t panel = begin; panel < end; ++panel) pack_codes(args, panel);
}

// Activations of an expert matmul. A pair alone with its expert reads its row of x in place.
struct GroupedRows {
  const std::byte* x;  // as the kernel takes it
  std::size_t x_stride;
  std::uint32_t pairs_a_row;  // 1: x has one row per pair
  const std::byte* gathered;  // rows of the other pairs, in the order of ExpertGroups::pairs()
  std::size_t gathered_stride;

  const std::byte* row_of(std::uint32_t pair) const { return x + pair / pairs_a_row * x_stride; }
};

inline void set_x(cpu::MatmulArgs& args, const std::byte* x) {
  args.x = reinterpret_cast<const float*>(x);
}
inline void set_x(cpu::Int8MatmulArgs& args, const std::byte* x) {
  args.x = x;
}

// Panels work.begin.. of a block's expert. `all` has the first expert's weights. Several rows go
// through a tile, as they are not consecutive in y.
template <class Args>
void multiply_block(void (*kernel)(const Args&, const cpu::Work&), const Args& all,
                    const GroupedRows& rows, const ExpertGroups::Block& block,
                    std::span<const std::uint32_t> pairs, const cpu::Work& work) {
  const std::size_t panel_bytes = cpu::packed_bytes(all.type, 1, all.inputs);
  Args args = all;
  args.rows = block.count;
  args.panels += block.expert * cpu::panel_count(all.outputs) * panel_bytes;
  if (args.bias != nullptr) args.bias += block.expert * all.outputs;
  if (block.count == 1) {
    set_x(args, rows.row_of(pairs[0]));
    args.y.data += pairs[0] * args.y.stride;
    kernel(args, work);
    return;
  }
  set_x(args, rows.gathered + block.first * rows.gathered_stride);
  constexpr std::size_t kTileCols = kExpertTilePanels * cpu::kPanelOutputs;
  float* tile = work.scratch + kProductScratchFloats;
  for (std::size_t first = work.begin; first < work.end; first += kExpertTilePanels) {
    const std::size_t count = std::min(kExpertTilePanels, work.end - first);
    const std::size_t column = first * cpu::kPanelOutputs;
    Args part = args;
    part.panels += first * panel_bytes;
    if (part.bias != nullptr) part.bias += column;
    part.outputs = std::min(all.outputs - column, count * cpu::kPanelOutputs);
    part.y = {tile, kTileCols};
    kernel(part, {.begin = 0, .end = count, .scratch = work.scratch});
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      std::copy_n(tile + i * kTileCols, part.outputs,
                  all.y.data + pairs[i] * all.y.stride + column);
    }
  }
}

}  // namespace edgedraft
