#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "shared/runtime/cpu_part.h"
#include "shared/runtime/op_checks.h"

namespace edgedraft {

// Recurrent operations of a CPU backend.
class CpuRecurrent final : CpuPart {
 public:
  CpuRecurrent(const cpu::Kernels& kernels, CpuThreads& threads) : CpuPart(kernels, threads) {}

  void convolve(const ConvolutionOp& op) {
    check_op(op);
    static_assert(kTapsMax == cpu::kConvolutionTapsMax);
    const std::size_t folded = recurrent(op.sequences);
    const cpu::ConvolutionArgs args{.x = const_rows(op.x),
                                    .weight = HostBackend::f32_data(op.weight),
                                    .taps = op.weight.cols,
                                    .silu = op.activation == Activation::silu,
                                    .y = rows(op.y),
                                    .cols = op.x.cols,
                                    .sequences = sequences_.data()};
    run(kernels_.convolve, args,
        {.items = sequences_.size() * cpu::convolution_parts(op.x.cols),
         .grain = 1,
         .steps = (op.x.rows * (op.weight.cols + kExpSteps) + folded) * op.x.cols});
  }

  void delta_rule(const DeltaRuleOp& op) {
    check_op(op);
    const std::size_t folded = recurrent(op.sequences);
    const cpu::DeltaRuleArgs args{.qkv = const_rows(op.qkv),
                                  .alpha = const_rows(op.alpha),
                                  .beta = const_rows(op.beta),
                                  .decay = HostBackend::f32_data(op.decay),
                                  .time_bias = HostBackend::f32_data(op.time_bias),
                                  .key_heads = op.key_heads,
                                  .value_heads = op.value_heads,
                                  .dim = op.dim,
                                  .epsilon = op.epsilon,
                                  .y = rows(op.y),
                                  .sequences = sequences_.data()};
    threads_.reserve_scratch(cpu::delta_rule_scratch_floats(op.dim));
    run(kernels_.delta_rule, args,
        {.items = sequences_.size() * op.key_heads,
         .grain = 1,
         .steps = 4 * std::uint64_t{op.qkv.rows + folded} * op.value_cols() * op.dim});
  }

 private:
  // Lists the sequences of a recurrent operation in sequences_. Returns their pending rows.
  std::size_t recurrent(std::span<const RecurrentRows> sequences) {
    static_assert(kNoParent == cpu::kStateParent && kMaskRowsMax == cpu::kRecurrentRowsMax);
    sequences_.clear();
    std::size_t first = 0;
    std::size_t folded = 0;
    for (const RecurrentRows& s : sequences) {
      sequences_.push_back({.first = first,
                            .rows = s.rows,
                            .settled = s.settled,
                            .kept_first = s.first,
                            .state = rows(s.state),
                            .kept = rows(s.kept),
                            .pending = s.pending.data(),
                            .pending_count = s.pending.size(),
                            .parents = s.parents.data()});
      first += s.rows;
      folded += s.pending.size();
    }
    return folded;
  }

  std::vector<cpu::Recurrent> sequences_;  // a member, so that calls do not allocate
};

}  // namespace edgedraft
