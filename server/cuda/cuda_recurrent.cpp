#include "server/cuda/cuda_recurrent.h"

#include <algorithm>

#include "server/cuda/cuda_views.h"

namespace edgedraft::server {

static_assert(kNoParent == cuda::kNoRow && kMaskRowsMax == cuda::kRecurrentRowsMax);
static_assert(kTapsMax == cuda::kConvolutionTapsMax);

cuda::RecurrentCall CudaRecurrent::upload(std::span<const RecurrentRows> sequences) {
  // Owners of all rows, then each sequence's parents and pending rows.
  words_.clear();
  for (std::uint32_t i = 0; i < sequences.size(); ++i) {
    words_.insert(words_.end(), sequences[i].rows, i);
  }
  const auto rows = static_cast<std::uint32_t>(words_.size());
  for (const RecurrentRows& s : sequences) {
    words_.insert(words_.end(), s.parents.begin(), s.parents.end());
    words_.insert(words_.end(), s.pending.begin(), s.pending.end());
  }
  const auto* words = arguments_.on_device(std::span<const std::uint32_t>(words_));

  sequences_.clear();
  std::uint32_t drafts_max = 0;
  std::uint32_t first = 0;
  const std::uint32_t* parents = words + rows;
  for (const RecurrentRows& s : sequences) {
    sequences_.push_back({.state = device_data(s.state),
                          .state_stride = s.state.stride,
                          .kept = device_data(s.kept),
                          .kept_stride = s.kept.stride,
                          .parents = parents,
                          .pending = parents + s.parents.size(),
                          .pending_count = static_cast<std::uint32_t>(s.pending.size()),
                          .first = first,
                          .rows = s.rows,
                          .settled = s.settled,
                          .kept_first = s.first});
    first += s.rows;
    parents += s.parents.size() + s.pending.size();
    drafts_max = std::max(drafts_max, s.drafted());
  }
  return {.sequences = arguments_.on_device(std::span<const cuda::RecurrentSequence>(sequences_)),
          .owners = words,
          .sequence_count = static_cast<std::uint32_t>(sequences_.size()),
          .rows = rows,
          .drafts_max = drafts_max};
}

void CudaRecurrent::convolve(const ConvolutionOp& op) {
  queue_.enqueue(cuda::convolve, cuda::ConvolutionArgs{.x = device_const_rows(op.x),
                                                       .weight = device_floats(op.weight),
                                                       .taps = op.weight.cols,
                                                       .silu = op.activation == Activation::silu,
                                                       .y = device_rows(op.y),
                                                       .cols = op.x.cols,
                                                       .call = upload(op.sequences)});
  arguments_.make_room();
}

void CudaRecurrent::delta_rule(const DeltaRuleOp& op) {
  const std::uint32_t floats =
      cuda::delta_rule_scratch_floats(op.key_heads, op.value_heads, op.dim);
  auto* scratch = scratch_.reserve<float>(std::uint64_t{op.qkv.rows} * floats);
  queue_.enqueue(cuda::delta_rule, cuda::DeltaRuleArgs{.qkv = device_const_rows(op.qkv),
                                                       .alpha = device_const_rows(op.alpha),
                                                       .beta = device_const_rows(op.beta),
                                                       .decay = device_floats(op.decay),
                                                       .time_bias = device_floats(op.time_bias),
                                                       .key_heads = op.key_heads,
                                                       .value_heads = op.value_heads,
                                                       .dim = op.dim,
                                                       .epsilon = op.epsilon,
                                                       .scratch = scratch,
                                                       .y = device_rows(op.y),
                                                       .call = upload(op.sequences)});
  arguments_.make_room();
}

}  // namespace edgedraft::server
