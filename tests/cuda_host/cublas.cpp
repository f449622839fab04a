#include <cublas_v2.h>
#include <cuda_fp16.h>

#include "server/cuda/cublas_functions.h"

namespace {

float number(const void* memory, cudaDataType_t type, std::size_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(memory)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(memory)[i];
  return type == CUDA_R_16F ? __half2float(__ushort_as_half(bits))
                            : __uint_as_float(std::uint32_t{bits} << 16);
}

// Element (row, column) of op(matrix), column-major.
std::size_t place(cublasOperation_t operation, int stride, int row, int column) {
  const auto [r, c] = operation == CUBLAS_OP_N ? std::pair(row, column) : std::pair(column, row);
  return static_cast<std::size_t>(c) * static_cast<std::size_t>(stride) +
         static_cast<std::size_t>(r);
}

cublasStatus_t status_of(cudaError_t error) {
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

}  // namespace

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = nullptr;
  return status_of(edgedraft::cuda_host::next_call());
}

cublasStatus_t cublasDestroy(cublasHandle_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t, cudaStream_t) {
  return status_of(edgedraft::cuda_host::next_call());
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t, void*, std::size_t) {
  return status_of(edgedraft::cuda_host::next_call());
}

const char* cublasGetStatusString(cublasStatus_t) {
  return "an invalid value";
}

cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t a_operation,
                            cublasOperation_t b_operation, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType_t a_type, int a_stride, const void* b,
                            cudaDataType_t b_type, int b_stride, const void* beta, void* c,
                            cudaDataType_t c_type, int c_stride, cublasComputeType_t,
                            cublasGemmAlgo_t) {
  if (const cudaError_t error = edgedraft::cuda_host::next_call(); error != cudaSuccess) {
    return status_of(error);
  }
  const bool sizes_fit = a_stride >= (a_operation == CUBLAS_OP_N ? m : k) &&
                         b_stride >= (b_operation == CUBLAS_OP_N ? k : n) && c_stride >= m;
  if (c_type != CUDA_R_32F || a_type != b_type || !sizes_fit) return CUBLAS_STATUS_INVALID_VALUE;
  const float scale = *static_cast<const float*>(alpha);
  const float keep = *static_cast<const float*>(beta);
  return status_of(edgedraft::cuda_host::enqueue([=] {
    for (int column = 0; column < n; ++column) {
      for (int row = 0; row < m; ++row) {
        float sum = 0.0f;
        for (int i = 0; i < k; ++i) {
          sum += number(a, a_type, place(a_operation, a_stride, row, i)) *
                 number(b, b_type, place(b_operation, b_stride, i, column));
        }
        float& to = static_cast<float*>(c)[place(CUBLAS_OP_N, c_stride, row, column)];
        to = scale * sum + (keep != 0.0f ? keep * to : 0.0f);
      }
    }
    return cudaSuccess;
  }));
}

namespace edgedraft::server {

const CublasFunctions& cublas_functions() {
  static constexpr CublasFunctions kFunctions{.create = cublasCreate,
                                              .destroy = cublasDestroy,
                                              .set_stream = cublasSetStream,
                                              .set_workspace = cublasSetWorkspace,
                                              .gemm_ex = cublasGemmEx,
                                              .status_string = cublasGetStatusString};
  return kFunctions;
}

}  // namespace edgedraft::server
