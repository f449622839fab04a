#pragma once

#include "kernels/cuda/ops.h"
#include "server/cuda/cublas_functions.h"
#include "server/cuda/cuda_memory.h"

namespace edgedraft::server {

// cuBLAS on a stream: fast for many rows, but its summation order changes with the row count.
class CudaGemm {
 public:
  explicit CudaGemm(CudaQueue& queue);
  ~CudaGemm();
  CudaGemm(const CudaGemm&) = delete;
  CudaGemm& operator=(const CudaGemm&) = delete;

  struct Product {
    DType type;            // f32, f16 or bf16, of weight and activations
    const void* x;         // [rows, inputs]
    std::size_t x_stride;  // elements
    const std::byte* weight;
    cuda::Rows y;
    std::uint32_t rows;
    std::uint32_t inputs;
    std::uint32_t outputs;
    bool accumulate;
  };
  // y = (accumulate ? y : 0) + x weight^T, accumulated in float32. Throws DeviceError.
  void multiply(const Product& product);

 private:
  const CublasFunctions& cublas_;
  CudaBuffer workspace_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace edgedraft::server
