#include "tests/bench/roofline.h"

#include <algorithm>
#include <cmath>

namespace edgedraft::bench {
namespace {

// `share`: of the matrix that a row multiplies.
void add(PassCost& cost, const TensorView& matrix, double share) {
  const double operations = 2.0 * share * matrix.rows * matrix.cols;
  const bool is_block = traits(matrix.type).block_count > 1;
  (share < 1.0 ? cost.expert_bytes : cost.bytes) += static_cast<double>(matrix.bytes.size());
  cost.operations_a_row += operations;
  if (is_block && matrix.type != DType::q8_0) cost.short_operations_a_row += operations;
  cost.is_quantised |= is_block;
}

}  // namespace

PassCost cost_of(const DecoderConfig& config, const DecoderTensors& tensors, std::uint32_t context,
                 DType kv_type) {
  PassCost cost;
  const auto add_whole = [&](const TensorView& matrix) {
    add(cost, matrix, 1.0);
    cost.is_bf16 &= matrix.type == DType::bf16;
  };
  add_whole(tensors.output.value_or(tensors.token_embd));
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    const ExpertShape experts = config.plan(i).experts;
    const LayerTensors& layer = tensors.layers[i];
    for_each_part(layer, layer, [&](const TensorView& part, const TensorView&, PartKind kind) {
      if (kind != PartKind::matrix || !part.present()) return;
      if (part.experts > 1) {
        cost.expert_share = static_cast<double>(experts.used) / experts.count;
        add(cost, part, cost.expert_share);
        cost.is_bf16 &= part.type == DType::bf16;
      } else if (&part == &layer.router) {
        add(cost, part, 1.0);
      } else {
        add_whole(part);
      }
    });
  }
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    const LayerPlan plan = config.plan(i);
    if (plan.mixer != Mixer::attention) continue;
    const HeadShape& heads = plan.shape.heads;
    const double positions = context;
    cost.cache_bytes += positions * static_cast<double>(cache_bytes(kv_type, 2 * heads.kv_cols()));
    cost.attention_operations_a_row += positions * 4 * heads.query_cols();
  }
  return cost;
}

double PassCost::weight_bytes(std::uint32_t rows) const {
  return bytes + expert_bytes * (1.0 - std::pow(1.0 - expert_share, rows));
}

PassLimits limits_of(const PassCost& cost, std::uint32_t width, const MachineLimits& machine) {
  const double reading =
      (cost.weight_bytes(width) + cost.cache_bytes) / machine.read_bytes_per_second;
  const double operations = cost.operations_a_row * width;
  const double attention =
      cost.attention_operations_a_row * width / machine.float_operations_per_second;
  const auto limit = [&](double computing) { return std::max(reading, computing + attention); };

  PassLimits limits{};
  if (!cost.is_quantised) {
    limits.seconds = limit(operations / machine.float_operations_per_second);
  } else {
    limits.seconds = limit(operations / machine.int8_operations_per_second);
    const double shorts = cost.short_operations_a_row * width;
    if (shorts > 0.0 && machine.short_operations_per_second > 0.0) {
      limits.int8_seconds = limits.seconds;
      limits.seconds = limit((operations - shorts) / machine.int8_operations_per_second +
                             shorts / machine.short_operations_per_second);
    }
  }
  const double tile_peak = cost.is_quantised ? machine.tile_operations_per_second
                           : cost.is_bf16    ? machine.bf16_tile_operations_per_second / 3
                                             : 0.0;
  if (tile_peak > 0.0) limits.tile_seconds = limit(operations / tile_peak);
  return limits;
}

}  // namespace edgedraft::bench
