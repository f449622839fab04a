#pragma once

#include <cstdint>

#include "shared/base/bytes.h"
#include "shared/model/model_plan.h"

namespace edgedraft {

// Rows of a planned tensor in the file's order, gathered from its sources.
class SourceRows {
 public:
  explicit SourceRows(const PlannedTensor& tensor);

  std::uint64_t count() const { return rows_ * tensor_.experts; }
  // Fills `out` with a row in the source's type.
  void read(std::uint64_t row, Bytes& out) const;

 private:
  void read_mxfp4(std::uint64_t source_row, Bytes& out) const;

  const PlannedTensor& tensor_;
  std::uint64_t rows_;  // per expert
  std::uint64_t cols_;
  std::uint64_t stored_rows_;  // per expert
  std::uint64_t stored_cols_;
};

}  // namespace edgedraft
