#include "shared/runtime/backend.h"

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

void Backend::matmuls(std::span<const MatmulOp> ops) {
  for (const MatmulOp& op : ops) matmul(op);
}

}  // namespace edgedraft
