#include "shared/runtime/weight_store.h"

namespace edgedraft {

Weight WeightStore::add(const TensorView& tensor) {
  if (!tensor.present()) return {};
  // Norms and biases are read in place as float32, so other types are decoded.
  if (tensor.rows == 1 && tensor.type != DType::f32) {
    std::vector<float>& numbers = decoded_.emplace_back(tensor.cols);
    dequantize_row(tensor.type, tensor.bytes, numbers);
    return add({.type = DType::f32,
                .rows = 1,
                .cols = tensor.cols,
                .bytes = std::as_bytes(std::span(numbers))});
  }
  return keep(backend_.upload(tensor.bytes), tensor);
}

Weight WeightStore::add_matrix(const TensorView& tensor) {
  if (!tensor.present()) return {};
  return keep(
      backend_.upload_matrix(
          {.type = tensor.type, .rows = tensor.rows, .cols = tensor.cols, .bytes = tensor.bytes}),
      tensor);
}

Weight WeightStore::keep(std::unique_ptr<Buffer> buffer, const TensorView& tensor) {
  buffers_.push_back(std::move(buffer));
  return {.buffer = buffers_.back().get(),
          .offset_bytes = 0,
          .type = tensor.type,
          .rows = tensor.rows,
          .cols = tensor.cols};
}

LayerWeights WeightStore::add_layer(const LayerTensors& layer) {
  return {.attn_norm = add(layer.attn_norm),
          .wq = add_matrix(layer.attn_q),
          .wk = add_matrix(layer.attn_k),
          .wv = add_matrix(layer.attn_v),
          .wo = add_matrix(layer.attn_output),
          .bq = add(layer.attn_q_bias),
          .bk = add(layer.attn_k_bias),
          .bv = add(layer.attn_v_bias),
          .ffn_norm = add(layer.ffn_norm),
          .gate = add_matrix(layer.ffn_gate),
          .up = add_matrix(layer.ffn_up),
          .down = add_matrix(layer.ffn_down)};
}

}  // namespace edgedraft
