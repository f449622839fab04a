#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/model/config.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/scratch.h"
#include "tests/bench/generated_model.h"

namespace edgedraft::bench {

inline constexpr std::uint32_t kChoices = 8;  // of a node, as in the default tree

// One operation in a drafter's sizes, ready to be run again and again.
struct Operation {
  std::string name;    // with the matrix, for products
  std::string shader;  // of the times that a MeasuredBackend gives
  double bytes;        // that it has to read and write at least
  std::function<void()> run;
};

// The operations of a drafting step over `width` rows behind `context` slots, with memory of their
// own on a backend.
class Operations {
 public:
  struct Sizes {
    LayerShape layer;
    std::uint32_t vocabulary;
    std::uint32_t width;
    std::uint32_t context;
    DType type;
  };
  // Requires  the tensors outlive this: they are the weights
  Operations(Backend& backend, const Sizes& sizes, const MoaTensors& tensors);

  std::vector<Operation> all();
  // Waits for what has been run.
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
