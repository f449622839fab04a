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

void VulkanBackend::multiply(const MatmulOp& op) {
  const bool is_quantised = traits(op.weight.type).block_count > 1;
  const std::uint32_t vector_bytes = op.weight.type == DType::f32 ? 16 : 8;
  const bool one_by_one =
      is_quantised ? !is_split(op.weight.type)
                   : op.weight.cols % 4 != 0 || op.weight.offset_bytes % vector_bytes != 0;
  const View x = view(op.x);
  const bool x_vectors = x.offset % 4 == 0 && x.stride % 4 == 0 && op.x.cols % 4 == 0;
  dispatch_product(
      {.shader = Shader::matmul,
       .constants = {type_constant(op.weight.type), rows_a_tile(op.x.rows), one_by_one, x_vectors}},
      op, x);
}

// Completes the key, then runs it for each part of the weight.
void VulkanBackend::dispatch_product(PipelineKey key, const MatmulOp& op, const View& x) {
  const MatmulTile& tile = matmul_tile_;
  key.constants[kWorkgroupConstant] = tile.workgroup;
  key.constants[5] = tile.lanes;
  const std::uint32_t rows = rows_a_tile(op.x.rows);
  const std::uint64_t row_tiles = groups_for(op.x.rows, rows);
  const auto row = static_cast<std::uint32_t>(row_bytes(op.weight.type, op.weight.cols).value());
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
                                   .accumulates = op.into == Into::accumulate ? 1u : 0u},
             {{x.slice},
              {part.slice},
              {part.scales},
              {op.bias ? bias.slice : part.slice},  // Vulkan requires a binding
              {y.slice, Bound::written}});
    stream_.count_multiplications(std::uint64_t{op.x.rows} * part.count * op.weight.cols);
  }
}

// Rows of x from quantize.comp, in scratch memory; offset and stride in words.
VulkanBackend::View VulkanBackend::quantize(const Matrix& x) {
  const auto groups = static_cast<std::uint32_t>(groups_for(x.cols, shaders::kQuantizeGroup));
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
