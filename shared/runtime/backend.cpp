#include "shared/runtime/backend.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {

Matrix Matrix::row_range(std::uint32_t first, std::uint32_t count) const {
  EDGEDRAFT_CHECK(std::uint64_t{first} + count <= rows);
  return {.buffer = buffer,
          .offset = offset + first * stride,
          .rows = count,
          .cols = cols,
          .stride = stride};
}

Matrix Matrix::column_range(std::uint32_t first, std::uint32_t count) const {
  EDGEDRAFT_CHECK(std::uint64_t{first} + count <= cols);
  return {
      .buffer = buffer, .offset = offset + first, .rows = rows, .cols = count, .stride = stride};
}

CacheRows CacheRows::row_range(std::uint32_t first, std::uint32_t count) const {
  EDGEDRAFT_CHECK(std::uint64_t{first} + count <= rows);
  CacheRows range = *this;
  range.offset += first * stride;
  range.rows = count;
  return range;
}

Matrix CacheRows::floats() const {
  EDGEDRAFT_CHECK(type == DType::f32);
  return {.buffer = buffer, .offset = offset, .rows = rows, .cols = cols, .stride = stride};
}

CacheRows CacheView::run(std::uint32_t first, std::uint32_t count) const {
  EDGEDRAFT_CHECK(count > 0 && std::uint64_t{first} + count <= slots());
  if (!paged()) return memory.row_range(first, count);
  std::uint32_t together = std::min(count, page_slots - first % page_slots);
  while (together < count && row(first + together) == row(first) + together) {
    together = std::min(count, together + page_slots);
  }
  return memory.row_range(static_cast<std::uint32_t>(row(first)), together);
}

void Backend::matmuls(std::span<const MatmulOp> ops) {
  for (const MatmulOp& op : ops) matmul(op);
}

void Backend::stores(std::span<const StoreOp> ops) {
  for (const StoreOp& op : ops) store(op);
}

void Backend::attentions(std::span<const AttentionOp> ops) {
  for (const AttentionOp& op : ops) attention(op);
}

void Backend::norm_matmuls(const RmsNormOp& norm, std::span<const MatmulOp> products) {
  rms_norm(norm);
  matmuls(products);
}

void Backend::gate_matmul(const GateOp& gated, const MatmulOp& product) {
  gate(gated);
  matmul(product);
}

void Backend::rope_store(const RopeStoreOp& op) {
  for (const Matrix& x : {op.q, op.k}) {
    rope({.x = x,
          .positions = op.positions,
          .cos_sin = op.cos_sin,
          .head_dim = op.head_dim,
          .rotated = op.rotated,
          .style = op.style});
  }
  std::uint32_t row = 0;
  for (const RopeStoreOp::Sequence& s : op.sequences) {
    store({.x = op.k.row_range(row, s.rows), .cache = s.keys, .first = s.first});
    store({.x = op.v.row_range(row, s.rows), .cache = s.values, .first = s.first});
    row += s.rows;
  }
}

}  // namespace edgedraft
