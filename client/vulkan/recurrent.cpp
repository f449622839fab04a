// Recurrent operations of backend.h, one sequence after another: a device has one.
#include <algorithm>
#include <cmath>

#include "client/vulkan/backend.h"
#include "client/vulkan/scratch_sizes.h"
#include "shared/base/check.h"
#include "shared/runtime/op_checks.h"

namespace edgedraft::client::vulkan {
namespace {

using shaders::Shader;

static_assert(kNoParent == shaders::kNoRow && kMaskRowsMax == shaders::kRecurrentRowsMax);
static_assert(kTapsMax == shaders::kConvolutionTapsMax);

// Settled rows take the words of parents, and pending rows are padded to the next multiple, so that
// most calls of a shape have their arguments at the same places and run a recording again.
constexpr std::size_t kPendingWords = 16;

std::size_t call_words(const RecurrentRows& rows) {
  return shaders::kParentWords + rows.first + rows.rows +
         (rows.pending.size() / kPendingWords + 1) * kPendingWords;
}

}  // namespace

std::uint32_t VulkanBackend::put(const RecurrentRows& rows) {
  static_assert(shaders::kSettledWord == 0 && shaders::kPendingCountWord == 1 &&
                shaders::kKeptFirstWord == 2 && shaders::kParentWords == 3);
  const std::uint32_t at = stream_.put(rows.settled);
  stream_.put(static_cast<std::uint32_t>(rows.pending.size()));
  stream_.put(rows.first);
  stream_.put(rows.parents);
  stream_.put(rows.pending);
  const std::size_t used = shaders::kParentWords + rows.parents.size() + rows.pending.size();
  for (std::size_t i = used; i < call_words(rows); ++i) stream_.put(std::uint32_t{0});
  return at;
}

void VulkanBackend::convolve(const ConvolutionOp& op) {
  check_op(op);
  const View weight = view(op.weight);
  std::uint32_t first = 0;
  for (const RecurrentRows& s : op.sequences) {
    const View state = view(s.state);
    const View kept = view(s.kept);
    // Vulkan requires a binding.
    const View x = s.rows > 0 ? view(op.x.row_range(first, s.rows)) : state;
    const View y = s.rows > 0 ? view(op.y.row_range(first, s.rows)) : state;
    const std::uint64_t groups = groups_for(op.x.cols, shaders::kRowWorkgroup);
    first += s.rows;
    stream_.reserve(call_words(s) * sizeof(std::uint32_t), 0);
    const std::uint32_t rows_at = put(s);
    if (s.rows > 0) {
      dispatch({.shader = Shader::convolve}, {.x = groups, .y = s.rows},
               shaders::ConvolutionParams{.x_offset = x.offset,
                                          .x_stride = x.stride,
                                          .weight_offset = weight.offset,
                                          .taps = op.weight.cols,
                                          .is_silu = op.activation == Activation::silu ? 1u : 0u,
                                          .state_offset = state.offset,
                                          .state_stride = state.stride,
                                          .kept_offset = kept.offset,
                                          .kept_stride = kept.stride,
                                          .y_offset = y.offset,
                                          .y_stride = y.stride,
                                          .rows = s.rows,
                                          .cols = op.x.cols,
                                          .rows_at = rows_at},
               {{x.slice}, {weight.slice}, {state.slice}, {kept.slice}, {y.slice, Bound::written}});
    }
    dispatch({.shader = Shader::fold_inputs}, {.x = groups},
             shaders::FoldInputsParams{.x_offset = x.offset,
                                       .x_stride = x.stride,
                                       .taps = op.weight.cols,
                                       .state_offset = state.offset,
                                       .state_stride = state.stride,
                                       .kept_offset = kept.offset,
                                       .kept_stride = kept.stride,
                                       .rows = s.rows,
                                       .cols = op.x.cols,
                                       .rows_at = rows_at},
             {{x.slice}, {state.slice, Bound::written}, {kept.slice, Bound::written}});
  }
}

void VulkanBackend::delta_rule(const DeltaRuleOp& op) {
  check_op(op);
  constexpr std::uint32_t kVectors = shaders::kDeltaWorkgroup / shaders::kNeighbours;
  const auto floats =
      static_cast<std::uint32_t>(delta_scratch_floats(op.key_cols(), op.value_heads));
  const std::uint32_t gates_at = 2 * op.key_cols();
  const Slice memory = scratch(std::uint64_t{std::max(op.qkv.rows, 1u)} * floats * sizeof(float));
  if (op.qkv.rows > 0) {
    const View qkv = view(op.qkv);
    const View alpha = view(op.alpha);
    const View beta = view(op.beta);
    const View decay = view(op.decay);
    const View time_bias = view(op.time_bias);
    stream_.reserve(0, 0);
    dispatch({.shader = Shader::delta_divide, .constants = {op.dim}},
             {.x = groups_for(2 * op.key_heads, kVectors), .y = op.qkv.rows},
             shaders::DeltaDivideParams{.x_offset = qkv.offset,
                                        .x_stride = qkv.stride,
                                        .y_stride = floats,
                                        .heads = 2 * op.key_heads,
                                        .epsilon = op.epsilon},
             {{qkv.slice}, {memory, Bound::written}});
    stream_.reserve(0, 0);
    dispatch(
        {.shader = Shader::delta_gates},
        {.x = groups_for(op.value_heads, shaders::kRowWorkgroup), .y = op.qkv.rows},
        shaders::DeltaGatesParams{.alpha_offset = alpha.offset,
                                  .alpha_stride = alpha.stride,
                                  .beta_offset = beta.offset,
                                  .beta_stride = beta.stride,
                                  .decay_offset = decay.offset,
                                  .time_bias_offset = time_bias.offset,
                                  .y_offset = gates_at,
                                  .y_stride = floats,
                                  .value_heads = op.value_heads},
        {{alpha.slice}, {beta.slice}, {decay.slice}, {time_bias.slice}, {memory, Bound::written}});
  }
  std::uint32_t first = 0;
  for (const RecurrentRows& s : op.sequences) {
    const View state = view(s.state);
    const View kept = view(s.kept);
    const View qkv = s.rows > 0 ? view(op.qkv.row_range(first, s.rows)) : state;
    const View y = s.rows > 0 ? view(op.y.row_range(first, s.rows)) : state;
    stream_.reserve(call_words(s) * sizeof(std::uint32_t), 0);
    const std::uint32_t rows_at = put(s);
    const auto indices = static_cast<std::uint32_t>(groups_for(op.dim, shaders::kNeighbours));
    dispatch({.shader = Shader::delta_rule, .constants = {op.dim, indices}},
             {.x = groups_for(op.dim, kVectors), .y = op.value_heads},
             shaders::DeltaRuleParams{.qkv_offset = qkv.offset,
                                      .qkv_stride = qkv.stride,
                                      .scratch_offset = first * floats,
                                      .scratch_stride = floats,
                                      .kept_offset = kept.offset,
                                      .kept_stride = kept.stride,
                                      .state_offset = state.offset,
                                      .state_stride = state.stride,
                                      .y_offset = y.offset,
                                      .y_stride = y.stride,
                                      .key_heads = op.key_heads,
                                      .value_heads = op.value_heads,
                                      .rows = s.rows,
                                      .rows_at = rows_at,
                                      .scale = 1.0f / std::sqrt(static_cast<float>(op.dim))},
             {{qkv.slice},
              {memory},
              {kept.slice},
              {state.slice, Bound::written},
              {y.slice, Bound::written}});
    if (s.rows > 0) {
      dispatch({.shader = Shader::delta_keep},
               {.x = groups_for(op.kept_cols(), shaders::kRowWorkgroup), .y = s.rows},
               shaders::DeltaKeepParams{.qkv_offset = qkv.offset,
                                        .qkv_stride = qkv.stride,
                                        .scratch_offset = first * floats,
                                        .scratch_stride = floats,
                                        .kept_offset = kept.offset,
                                        .kept_stride = kept.stride,
                                        .key_cols = op.key_cols(),
                                        .value_cols = op.value_cols(),
                                        .value_heads = op.value_heads,
                                        .rows = s.rows,
                                        .rows_at = rows_at},
               {{qkv.slice}, {memory}, {kept.slice, Bound::written}});
    }
    stream_.count_multiplications(std::uint64_t{4} * (s.rows + s.pending.size()) * op.value_cols() *
                                  op.dim);
    first += s.rows;
  }
}

}  // namespace edgedraft::client::vulkan
