#pragma once

#include <cstddef>

#include <cuda_runtime.h>

// The only cuBLAS matmul that server/cuda uses, as plain loops.

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_INVALID_VALUE = 7 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };

using cublasHandle_t = struct CublasHandle*;

cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t bytes);
const char* cublasGetStatusString(cublasStatus_t status);
// c [m, n] = alpha op(a) op(b) + beta c, column-major; c is float32.
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_operation,
                            cublasOperation_t b_operation, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType_t a_type, int a_stride, const void* b,
                            cudaDataType_t b_type, int b_stride, const void* beta, void* c,
                            cudaDataType_t c_type, int c_stride, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm);
