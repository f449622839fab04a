#include "shared/runtime/weight_store.h"

namespace edgedraft {

Weight WeightStore::add(const TensorView& tensor) {
  if (!tensor.present()) return {};
  return keep(
      backend_.upload_table(
          {.type = tensor.type, .rows = tensor.rows, .cols = tensor.cols, .bytes = tensor.bytes}),
      tensor);
}

Weight WeightStore::add_vector(const TensorView& tensor) {
  if (!tensor.present() || tensor.type == DType::f32) return add(tensor);
  std::vector<float>& numbers = decoded_.emplace_back(std::size_t{tensor.rows} * tensor.cols);
  dequantize_row(tensor.type, tensor.bytes, numbers);
  return add({.type = DType::f32,
              .rows = tensor.rows,
              .cols = tensor.cols,
              .bytes = std::as_bytes(std::span(numbers))});
}

Weight WeightStore::add_matrix(const TensorView& tensor) {
  if (!tensor.present()) return {};
  const bool is_spaced = tensor.group != 0 && tensor.experts > 1 && backend_.takes_spaced_experts();
  const bool is_copied = tensor.group != 0 && !is_spaced;
  const TensorView packed = is_copied ? packed_rows(tensor) : tensor;
  auto buffer = backend_.upload_matrix({.type = packed.type,
                                        .rows = packed.rows,
                                        .cols = packed.cols,
                                        .bytes = packed.bytes,
                                        .experts = packed.experts,
                                        .is_spaced = is_spaced});
  if (is_copied && !backend_.aliases_weights()) packed_.pop_back();
  return keep(std::move(buffer), packed);
}

TensorView WeightStore::packed_rows(const TensorView& tensor) {
  const std::size_t row = *row_bytes(tensor.type, tensor.cols);
  Bytes& rows = packed_.emplace_back();
  rows.reserve(row * tensor.rows);
  for (std::uint32_t r = 0; r < tensor.rows; r += tensor.group) {
    const ByteView group = tensor.bytes.subspan(std::size_t{2} * r * row, tensor.group * row);
    rows.insert(rows.end(), group.begin(), group.end());
  }
  return {.type = tensor.type,
          .rows = tensor.rows,
          .cols = tensor.cols,
          .bytes = rows,
          .experts = tensor.experts};
}

Weight WeightStore::keep(std::unique_ptr<Buffer> buffer, const TensorView& tensor) {
  buffers_.push_back(std::move(buffer));
  return {.buffer = buffers_.back().get(),
          .offset_bytes = 0,
          .type = tensor.type,
          .rows = tensor.rows,
          .cols = tensor.cols,
          .experts = tensor.experts};
}

LayerWeights WeightStore::add_layer(const LayerTensors& layer) {
  LayerWeights weights;
  for_each_part(layer, weights, [&](const TensorView& tensor, Weight& weight, PartKind kind) {
    if (kind == PartKind::number) return;
    weight = kind == PartKind::matrix ? add_matrix(tensor) : add_vector(tensor);
  });
  return weights;
}

}  // namespace edgedraft
