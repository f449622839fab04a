#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "kernels/cpu/experts.h"
#include "shared/runtime/cpu_experts.h"
#include "shared/runtime/cpu_products.h"

namespace edgedraft {

// Matmuls of experts of a CPU backend. `products` outlives it.
class CpuExpertProducts final : CpuPart {
 public:
  CpuExpertProducts(const cpu::Kernels& kernels, CpuThreads& threads, CpuProducts& products,
                    std::shared_ptr<ExpertStacks> stacks)
      : CpuPart(kernels, threads), products_(products), stacks_(std::move(stacks)) {}

  ExpertStacks& stacks() { return *stacks_; }

  void expert_matmul(const ExpertMatmulOp& op) {
    check_op(op);
    groups_.group(op.experts, HostBackend::data(op.experts), op.weight.experts);
    pack_chosen(op.weight);
    const MatmulOp product{.x = op.x, .weight = op.weight, .bias = op.bias, .y = op.y};
    if (is_float(op.weight.type)) {
      multiply_groups(kernels_.matmul, CpuProducts::args_of<cpu::MatmulArgs>(product),
                      float_groups(op));
    } else {
      multiply_groups(kernels_.int8_matmul, CpuProducts::args_of<cpu::Int8MatmulArgs>(product),
                      int8_groups(op));
    }
  }

 private:
  // Packs those experts of groups_ that are not.
  void pack_chosen(const Weight& w) {
    const auto& stack = static_cast<const ExpertStack&>(*w.buffer);
    const std::span missing = stacks_->use(stack, groups_.blocks());
    if (missing.empty()) return;
    threads_.pool().run(missing.size() * cpu::panel_count(w.rows / w.experts), 1,
                        [&](std::size_t begin, std::size_t end, std::size_t) {
                          ExpertStacks::pack(stack, missing, begin, end);
                        });
  }

  // Copies the rows of blocks with several pairs to gathered_, and calls finish(block, rows) on
  // each.
  template <class Finish>
  void gather(const ExpertMatmulOp& op, GroupedRows& rows, const Finish& finish) {
    if (!groups_.any_shared()) return;
    threads_.reserve(gathered_, gathered_bytes(op.weight.type, op.y.rows, op.x.cols));
    std::byte* to = gathered_->mutable_data();
    rows.gathered = to;
    const auto copy_block = [&](const ExpertGroups::Block& block) {
      std::byte* first = to + block.first * rows.gathered_stride;
      for (std::uint32_t i = 0; i < block.count; ++i) {
        std::memcpy(first + i * rows.gathered_stride, rows.row_of(groups_.pairs()[block.first + i]),
                    rows.gathered_stride);
      }
      finish(block, first);
    };
    threads_.share(groups_.blocks().size(), 1, std::uint64_t{op.y.rows} * op.x.cols,
                   [&](std::size_t begin, std::size_t end, std::size_t) {
                     for (const auto& block : groups_.blocks().subspan(begin, end - begin)) {
                       if (block.count > 1) copy_block(block);
                     }
                   });
  }

  GroupedRows int8_groups(const ExpertMatmulOp& op) {
    const std::size_t stride = cpu::quantized_row_bytes(op.x.cols);
    GroupedRows rows{.x = products_.quantize(op.x),
                     .x_stride = stride,
                     .pairs_a_row = op.y.rows / std::max(op.x.rows, 1u),
                     .gathered = nullptr,
                     .gathered_stride = stride};
    gather(op, rows, [](const ExpertGroups::Block&, const std::byte*) {});
    return rows;
  }

  // Interleaves each block's rows, into interleaved_.
  GroupedRows float_groups(const ExpertMatmulOp& op) {
    const std::size_t row_floats = op.x.cols;
    GroupedRows rows{.x = reinterpret_cast<const std::byte*>(HostBackend::data(op.x)),
                     .x_stride = op.x.stride * sizeof(float),
                     .pairs_a_row = op.y.rows / std::max(op.x.rows, 1u),
                     .gathered = nullptr,
                     .gathered_stride = row_floats * sizeof(float)};
    if (!groups_.any_shared()) return rows;
    float* const to = products_.interleaved(op.y.rows, op.x.cols);
    gather(op, rows, [&](const ExpertGroups::Block& block, const std::byte* from) {
      kernels_.interleave({.x = {reinterpret_cast<const float*>(from), row_floats},
                           .rows = block.count,
                           .cols = row_floats,
                           .y = to + block.first * row_floats},
                          {.begin = 0, .end = cpu::chain_count(row_floats), .scratch = nullptr});
    });
    rows.gathered = reinterpret_cast<const std::byte*>(to);
    return rows;
  }

  // Threads share the panels of all chosen experts together. `all` has the first expert's weights.
  template <class Args>
  void multiply_groups(void (*kernel)(const Args&, const cpu::Work&), const Args& all,
                       const GroupedRows& rows) {
    threads_.reserve_scratch(kProductScratchFloats + kExpertTileFloats);
    const std::size_t panels = cpu::panel_count(all.outputs);
    const std::span blocks = groups_.blocks();
    threads_.share(blocks.size() * panels, 1,
                   std::uint64_t{groups_.pairs().size()} * all.inputs * all.outputs,
                   [&](std::size_t begin, std::size_t end, std::size_t thread) {
                     for (std::size_t item = begin; item < end;) {
                       const std::size_t index = item / panels;
                       const std::size_t next = std::min(end, (index + 1) * panels);
                       const ExpertGroups::Block& block = blocks[index];
                       multiply_block(kernel, all, rows, block,
                                      groups_.pairs().subspan(block.first, block.count),
                                      {.begin = item - index * panels,
                                       .end = next - index * panels,
                                       .scratch = threads_.scratch(thread)});
                       item = next;
                     }
                   });
  }

  CpuProducts& products_;
  std::shared_ptr<ExpertStacks> stacks_;
  ExpertGroups groups_;
  std::unique_ptr<HostBuffer>
      gathered_;  // activations grouped by expert, sized for the largest call
};

}  // namespace edgedraft
