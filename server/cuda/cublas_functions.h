#pragma once

#include <cublas_v2.h>

namespace edgedraft {

// What we use of cuBLAS. Its libraries have 600 MB and take most of a second to load, which nobody
// should wait for who computes on the CPU, or asks for --help.
struct CublasFunctions {
  decltype(&cublasCreate) create;
  decltype(&cublasDestroy) destroy;
  decltype(&cublasSetStream) set_stream;
  decltype(&cublasSetWorkspace) set_workspace;
  // Overloaded, so that its type has to be said.
  cublasStatus_t (*gemm_ex)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                            int k, const void* alpha, const void* a, cudaDataType_t, int lda,
                            const void* b, cudaDataType_t, int ldb, const void* beta, void* c,
                            cudaDataType_t, int ldc, cublasComputeType_t, cublasGemmAlgo_t);
  decltype(&cublasGetStatusString) status_string;
};

// Loads the libraries when it is called first.
// Errors    throws DeviceError where they cannot be loaded
const CublasFunctions& cublas_functions();

}  // namespace edgedraft
