#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/packed.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/expert_groups.h"

// Memory of the CPU backend beside operands, shared by the backend and its plan.
namespace edgedraft {

inline cpu::Heads heads_of(const HeadShape& heads) {
  return {.kv_heads = heads.kv_heads,
          .group = heads.query_heads / heads.kv_heads,
          .head_dim = heads.head_dim};
}

// True if the weight is used in tiles, which keep the file's order.
inline bool takes_tiles(const cpu::Kernels& kernels, DType type, std::size_t inputs) {
  return kernels.tile_matmul != nullptr && type == DType::bf16 &&
         inputs % cpu::kSplitCellInputs == 0;
}

// Bytes of a matrix, or of a stack of them, in panels. No panel has outputs of two experts.
inline std::size_t packed_stack_bytes(DType type, std::size_t rows, std::size_t cols,
                                      std::size_t experts) {
  return experts * cpu::packed_bytes(type, rows / experts, cols);
}

// --- per thread, in floats ---

inline constexpr std::size_t kProductScratchFloats =
    std::max(cpu::kMatmulScratchFloats, cpu::kInt8MatmulScratchFloats);
// Results of a block of rows of one expert, before they go to their rows. After the scratch above.
inline constexpr std::size_t kExpertTilePanels = 4;
inline constexpr std::size_t kExpertTileFloats =
    ExpertGroups::kBlockPairsMax * kExpertTilePanels * cpu::kPanelOutputs;

// --- per backend, in bytes: converted activations, and parts of logits ---

inline std::size_t quantized_bytes(std::size_t rows, std::size_t cols) {
  return rows * cpu::quantized_row_bytes(cols);
}
inline std::size_t split_bytes(std::size_t rows, std::size_t cols) {
  return cpu::split_cells(rows, cols) * cpu::kSplitCellBytes;
}
inline std::size_t interleaved_bytes(std::size_t rows, std::size_t cols) {
  return rows * cols * sizeof(float);
}
// Activations of expert matmuls, grouped by expert.
inline std::size_t gathered_bytes(DType type, std::size_t pairs, std::size_t cols) {
  return is_float(type) ? interleaved_bytes(pairs, cols) : quantized_bytes(pairs, cols);
}
inline std::size_t top_k_bytes(std::size_t rows, std::size_t cols) {
  return rows * cpu::top_k_segments(cols) * sizeof(cpu::TopKPart);
}

}  // namespace edgedraft
