#pragma once

#include <cublas_v2.h>

namespace edgedraft::server {

// The cuBLAS functions in use. They are loaded on demand, because loading takes 600 MB and most of
// a second, which CPU-only runs and --help do not need.
struct CublasFunctions {
  decltype(&cublasCreate) create;
  decltype(&cublasDestroy) destroy;
  decltype(&cublasSetStream) set_stream;
  decltype(&cublasSetWorkspace) set_workspace;
  // Overloaded in the header, hence the explicit type.
  cublasStatus_t (*gemm_ex)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                            int k, const void* alpha, const void* a, cudaDataType_t, int lda,
                            const void* b, cudaDataType_t, int ldb, const void* beta, void* c,
                            cudaDataType_t, int ldc, cublasComputeType_t, cublasGemmAlgo_t);
  decltype(&cublasGetStatusString) status_string;
};

// Loads the libraries on the first call.
// Errors    throws DeviceError if they cannot be loaded
const CublasFunctions& cublas_functions();

}  // namespace edgedraft::server
