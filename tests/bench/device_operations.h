#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/model/config.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/layer.h"
#include "tests/bench/generated_model.h"

namespace edgedraft::bench {

inline constexpr std::uint32_t kChoices = 8;  // per node, as in the default tree

// One operation in a drafter's sizes, ready to run repeatedly.
struct Operation {
  std::string name;    // includes the matrix, for matmuls
  std::string shader;  // shader name in a MeasuredBackend's times
  double bytes;        // minimum bytes to read and write
  std::function<void()> run;
};

// The operations of a drafting step over `width` rows after `context` slots, with their own memory
// on a backend.
class Operations {
 public:
  struct Sizes {
    LayerShape layer;
    std::uint32_t vocabulary;
    std::uint32_t width;
    std::uint32_t context;
    DType type;
  };
  // Requires  `tensors`, which hold the weights, outlive this
  Operations(Backend& backend, const Sizes& sizes, const MoaTensors& tensors);

  std::vector<Operation> all();
  // Waits until all operations have completed.
  void wait();

 private:
  const OwnedMatrix& matrix(std::uint32_t rows, std::uint32_t cols);
  CacheRows cache(std::uint32_t rows, std::uint32_t cols);
  Weight weight(const TensorView& tensor);
  Weight table(const TensorView& tensor);
  Operation product(const std::string& name, const TensorView& tensor);

  Backend& backend_;
  Sizes sizes_;
  const MoaTensors& tensors_;
  std::vector<std::unique_ptr<OwnedMatrix>> matrices_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::uint32_t> numbers_;  // tokens, positions and slots
  std::vector<AncestorMask> masks_;
  std::vector<std::uint32_t> tokens_;
  std::vector<float> log_probs_;
};

}  // namespace edgedraft::bench
