#pragma once

#include <cstdint>
#include <memory>

#include "shared/runtime/backend.h"

namespace edgedraft {

// A matrix with its own memory, allocated once; rows(n) is its first n rows.
class OwnedMatrix {
 public:
  OwnedMatrix(Backend& backend, std::uint32_t rows, std::uint32_t cols)
      : memory_(backend.allocate(std::uint64_t{rows} * cols)),
        all_{.buffer = memory_.get(), .offset = 0, .rows = rows, .cols = cols, .stride = cols} {}

  Matrix rows(std::uint32_t count) const { return all_.row_range(0, count); }
  const Matrix& all() const { return all_; }

 private:
  std::unique_ptr<Buffer> memory_;
  Matrix all_;
};

}  // namespace edgedraft
