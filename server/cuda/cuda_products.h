#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernels/cuda/ops.h"
#include "server/cuda/cuda_gemm.h"
#include "server/cuda/cuda_memory.h"
#include "shared/runtime/backend.h"

namespace edgedraft::server {

// The backend's matmuls: kernel or library selection, and memory for converted activations.
class CudaProducts {
 public:
  // `deterministic`: without the library.
  CudaProducts(CudaQueue& queue, bool deterministic);

  // True if all of them take x rounded to int8, so that x itself is not needed.
  static bool take_int8(std::span<const MatmulOp> ops);
  // Memory for x rounded to int8 by the preceding operation. Growing it starts the recorded
  // launches.
  const cuda::QuantizedRows& reserve_int8(const Matrix& x);

  enum class Input : std::uint8_t { x, reserved_int8 };
  // Matmuls of the same x.
  // Requires  checked operations
  void multiply(std::span<const MatmulOp> ops, Input input = Input::x);
  // Own kernels only: the library cannot read the choice of experts on the device.
  void multiply_experts(const ExpertMatmulOp& op);

 private:
  void float_products(std::span<const MatmulOp> ops);
  void quantize(const Matrix& x);
  void int8_products(std::span<const MatmulOp> ops);
  // `rounded`: the type in which rounded_ already holds x.
  void library_product(const MatmulOp& op, std::optional<DType>& rounded);

  CudaQueue& queue_;
  std::unique_ptr<CudaGemm> gemm_;  // null in deterministic mode
  CudaScratch int8_values_{queue_};
  CudaScratch int8_scales_{queue_};
  CudaScratch int8_sums_{queue_};
  CudaScratch rounded_{queue_};
  CudaScratch expert_order_{queue_};
  CudaScratch expert_tiles_{queue_};
  cuda::QuantizedRows quantized_{};
};

}  // namespace edgedraft::server
