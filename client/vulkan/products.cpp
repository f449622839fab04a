// Matmuls of activations, unchanged or rounded to int8 if the device has integer dot products.
#include <algorithm>
#include <bit>

#include "client/vulkan/backend.h"
#include "client/vulkan/scratch_sizes.h"
#include "shared/base/check.h"
#include "shared/runtime/op_checks.h"

namespace edgedraft::client::vulkan {
namespace {

using shaders::Shader;

// Rows that share a read of the weight: 1, 2, 4 or 8.
std::uint32_t rows_a_tile(std::uint32_t rows) {
  return std::min(std::bit_ceil(rows), 8u);
}

// Outputs per lane, for which it loads an activation once. A narrow matmul has few workgroups with
// long rows; fewer outputs per lane then give more workgroups that read in parallel.
std::uint32_t outputs_a_lane(const MatmulTile& tile, std::uint32_t outputs,
                             std::uint64_t row_tiles) {
  std::uint32_t count = tile.outputs_max;
  const auto workgroups = [&] {
    return groups_for(outputs, tile.workgroup / tile.lanes * count) * row_tiles;
  };
  while (count > 1 && workgroups() < tile.workgroups_wanted) count /= 2;
  return count;
}

bool same_matrix(const Matrix& a, const Matrix& b) {
  return a.buffer == b.buffer && a.offset == b.offset && a.rows == b.rows && a.cols == b.cols &&
         a.stride == b.stride;
}

}  // namespace

void VulkanBackend::matmul(const MatmulOp& op) {
  matmuls(std::span(&op, 1));
}

void VulkanBackend::matmuls(std::span<const MatmulOp> ops) {
  Matrix rounded;  // source of `inputs`
  View inputs{};
  for (const MatmulOp& op : ops) {
    check_op(op);
    if (op.x.rows == 0) continue;
    EDGEDRAFT_CHECK(is_split(op.weight.type) ==
                    device_buffer(op.weight.buffer).scales_at().has_value());
    if (!device_.features().integer_dot || !is_split(op.weight.type)) {
      multiply(op);
      continue;
    }
    if (!same_matrix(rounded, op.x)) {
      inputs = quantize(op.x);
      rounded = op.x;
    }
    dispatch_product({.shader = Shader::int8_matmul,
                      .constants = {type_constant(op.weight.type), rows_a_tile(op.x.rows)}},
                     op, inputs);
  }
}

PipelineKey VulkanBackend::product_key(const Matrix& x, const View& at, const Weight& weight,
                                       std::uint32_t rows) {
  const bool is_quantised = traits(weight.type).block_count > 1;
  const std::uint32_t vector_bytes = weight.type == DType::f32 ? 16 : 8;
  const bool one_by_one = is_quantised
                              ? !is_split(weight.type)
                              : weight.cols % 4 != 0 || weight.offset_bytes % vector_bytes != 0;
  const bool x_vectors = at.offset % 4 == 0 && at.stride % 4 == 0 && x.cols % 4 == 0;
  return {.shader = Shader::matmul,
          .constants = {type_constant(weight.type), rows, one_by_one, x_vectors}};
}

void VulkanBackend::multiply(const MatmulOp& op) {
  const View x = view(op.x);
  dispatch_product(product_key(op.x, x, op.weight, rows_a_tile(op.x.rows)), op, x);
}

// Completes the key, then runs it for each part of the weight.
void VulkanBackend::dispatch_product(PipelineKey key, const MatmulOp& op, const View& x) {
  const MatmulTile& tile = matmul_tile_;
  key.constants[kWorkgroupConstant] = tile.workgroup;
  key.constants[5] = tile.lanes;
  const std::uint32_t rows = rows_a_tile(op.x.rows);
  const std::uint64_t row_tiles = groups_for(op.x.rows, rows);
  const auto row = static_cast<std::uint32_t>(stored_row_bytes(op.weight.type, op.weight.cols));
  const View y = view(op.y);
  const View bias = op.bias ? view(op.bias) : View{};
  for (const WeightPart& part : parts(op.weight)) {
    key.constants[6] = outputs_a_lane(tile, part.count, row_tiles);
    const std::uint32_t outputs = tile.workgroup / tile.lanes * key.constants[6];
    stream_.reserve(0, 0);
    dispatch(key, {.x = groups_for(part.count, outputs), .y = row_tiles},
             shaders::MatmulParams{.x_offset = x.offset,
                                   .x_stride = x.stride,
                                   .weight_offset = part.offset_bytes,
                                   .scale_offset = part.scale_offset,
                                   .row_bytes = row,
                                   .bias_offset = bias.offset + part.first,
                                   .y_offset = y.offset + part.first,
                                   .y_stride = y.stride,
                                   .rows = op.x.rows,
                                   .inputs = op.weight.cols,
                                   .outputs = part.count,
                                   .has_bias = op.bias ? 1u : 0u,
                                   .accumulates = op.into == Into::accumulate ? 1u : 0u,
                                   .experts_offset = 0,
                                   .experts_stride = 0,
                                   .first_row = 0,
                                   .part_rows = 0,
                                   .pairs_a_row = 1},
             {{x.slice},
              {part.slice},
              {part.scales},
              {op.bias ? bias.slice : part.slice},  // Vulkan requires a binding
              {y.slice, Bound::written},
              {part.slice}});  // no experts
    stream_.count_multiplications(std::uint64_t{op.x.rows} * part.count * op.weight.cols);
  }
}

// One tile per pair, so each reads the weights of its expert. Every part of the stack runs all
// pairs and writes the outputs that lie in it.
void VulkanBackend::expert_matmul(const ExpertMatmulOp& op) {
  check_op(op);
  if (op.y.rows == 0) return;
  const bool is_rounded = device_.features().integer_dot && is_split(op.weight.type);
  EDGEDRAFT_CHECK(is_split(op.weight.type) ==
                  device_buffer(op.weight.buffer).scales_at().has_value());
  const View x = is_rounded ? quantize(op.x) : view(op.x);
  PipelineKey key = is_rounded ? PipelineKey{.shader = Shader::int8_matmul,
                                             .constants = {type_constant(op.weight.type), 1}}
                               : product_key(op.x, x, op.weight, 1);
  const MatmulTile& tile = matmul_tile_;
  key.constants[kWorkgroupConstant] = tile.workgroup;
  key.constants[5] = tile.lanes;
  key.constants[6] = outputs_a_lane(tile, op.y.cols, op.y.rows);
  key.constants[7] = op.experts.cols;
  const std::uint32_t outputs = tile.workgroup / tile.lanes * key.constants[6];
  const View y = view(op.y);
  const View experts = view(op.experts);
  const View bias = op.bias ? view(op.bias) : View{};
  for (const WeightPart& part : parts(op.weight)) {
    stream_.reserve(0, 0);
    dispatch(key, {.x = groups_for(op.y.cols, outputs), .y = op.y.rows},
             shaders::MatmulParams{.x_offset = x.offset,
                                   .x_stride = x.stride,
                                   .weight_offset = part.offset_bytes,
                                   .scale_offset = part.scale_offset,
                                   .row_bytes = static_cast<std::uint32_t>(
                                       stored_row_bytes(op.weight.type, op.weight.cols)),
                                   .bias_offset = bias.offset,
                                   .y_offset = y.offset,
                                   .y_stride = y.stride,
                                   .rows = op.y.rows,
                                   .inputs = op.weight.cols,
                                   .outputs = op.y.cols,
                                   .has_bias = op.bias ? 1u : 0u,
                                   .accumulates = 0,
                                   .experts_offset = experts.offset,
                                   .experts_stride = experts.stride,
                                   .first_row = part.first,
                                   .part_rows = part.count,
                                   .pairs_a_row = op.y.rows / op.x.rows},
             {{x.slice},
              {part.slice},
              {part.scales},
              {op.bias ? bias.slice : part.slice},
              {y.slice, Bound::written},
              {experts.slice}});
  }
  stream_.count_multiplications(std::uint64_t{op.y.rows} * op.y.cols * op.weight.cols);
}

// Rows of x from quantize.comp, in scratch memory; offset and stride in words.
VulkanBackend::View VulkanBackend::quantize(const Matrix& x) {
  constexpr std::uint32_t kColumns = 4 * shaders::kQuantizeWorkgroup;
  const auto groups = static_cast<std::uint32_t>(groups_for(x.cols, kColumns));
  const std::uint32_t stride = quantized_row_words(x.cols);
  const View from = view(x);
  const View to{.slice = scratch(std::uint64_t{x.rows} * stride * sizeof(std::uint32_t)),
                .offset = 0,
                .stride = stride};
  stream_.reserve(0, 0);
  dispatch(
      {.shader = Shader::quantize}, {.x = groups, .y = x.rows},
      shaders::QuantizeParams{
          .x_offset = from.offset, .x_stride = from.stride, .cols = x.cols, .y_stride = to.stride},
      {{from.slice}, {to.slice, Bound::written}});
  return to;
}

}  // namespace edgedraft::client::vulkan
