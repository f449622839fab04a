#pragma once

#include <memory>
#include <optional>
#include <span>

#include "kernels/cuda/ops.h"
#include "server/cuda/cuda_gemm.h"
#include "server/cuda/cuda_memory.h"
#include "shared/runtime/backend.h"

namespace edgedraft {

// The backend's matrix products: which kernel or library makes which, and the memory for
// activations in other types.
class CudaProducts {
 public:
  // `deterministic`: without the library.
  CudaProducts(CudaQueue& queue, bool deterministic);

  // Products of the same x. Requires  checked operations
  void multiply(std::span<const MatmulOp> ops);

 private:
  struct Quantized {
    std::byte* values;
    float* scales;
    float* sums;
  };

  void float_products(std::span<const MatmulOp> ops);
  void quantize(const Matrix& x);
  void int8_products(std::span<const MatmulOp> ops);
  // `rounded`: the type in which x already stands in rounded_.
  void library_product(const MatmulOp& op, std::optional<DType>& rounded);

  CudaQueue& queue_;
  std::unique_ptr<CudaGemm> gemm_;  // null in deterministic mode
  CudaScratch int8_values_{queue_};
  CudaScratch int8_scales_{queue_};
  CudaScratch int8_sums_{queue_};
  CudaScratch rounded_{queue_};
  Quantized quantized_{};
};

}  // namespace edgedraft
