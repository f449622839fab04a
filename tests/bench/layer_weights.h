#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/runtime/backend.h"

namespace edgedraft::bench {

// One weight of a pass.
struct WeightShape {
  std::string name;
  std::uint32_t outputs;
  std::uint32_t inputs;
};

// The matrices of one decoder layer of a model known by name, or a single one written
// OUTPUTSxINPUTS.
//
// Errors    usage, with the names that there are
Result<std::vector<WeightShape>> parse_shape(const std::string& text);

// Random weights of those shapes, in as many copies as fill a working set: a pass over the next
// copy finds the cache as the next layer of a model would.
class LayerWeights {
 public:
  LayerWeights(Backend& backend, const std::vector<WeightShape>& shapes, DType type,
               std::uint64_t working_set_bytes);

  std::uint64_t bytes_a_copy() const { return bytes_a_copy_; }
  std::uint64_t products_a_row() const { return products_a_row_; }
  std::size_t copy_count() const { return copies_.size(); }
  const std::vector<Weight>& copy(std::size_t index) const { return copies_[index]; }
  // One row of a weight, decoded. All copies are alike.
  std::vector<float> decoded_row(std::size_t weight, std::uint32_t row) const;

 private:
  DType type_;
  std::vector<WeightShape> shapes_;
  std::uint64_t bytes_a_copy_ = 0;
  std::uint64_t products_a_row_ = 0;
  std::vector<Bytes> bytes_;  // one a weight and copy, under the buffers
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::vector<Weight>> copies_;
};

}  // namespace edgedraft::bench
