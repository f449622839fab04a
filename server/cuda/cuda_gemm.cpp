#include "server/cuda/cuda_gemm.h"

#include <string>

namespace edgedraft::server {
namespace {

// NVIDIA's recommendation for Hopper. Allocated once, so that matmuls allocate nothing.
constexpr std::uint64_t kWorkspaceBytes = 32u << 20;

void try_cublas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(std::string("cuBLAS: ") + what + ": " +
                    cublas_functions().status_string(status));
}

cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

}  // namespace

CudaGemm::CudaGemm(CudaQueue& queue)
    : cublas_(cublas_functions()), workspace_(queue, kWorkspaceBytes) {
  try_cublas(cublas_.create(&handle_), "creating a handle");
  try_cublas(cublas_.set_stream(handle_, queue.raw()), "setting the stream");
  try_cublas(cublas_.set_workspace(handle_, workspace_.data(), kWorkspaceBytes),
             "setting the workspace");
}

CudaGemm::~CudaGemm() {
  if (handle_ != nullptr) static_cast<void>(cublas_.destroy(handle_));
}

void CudaGemm::multiply(const Product& p) {
  // Row-major y = x w^T is column-major y^T = (w^T)^T x^T.
  const float one = 1.0f;
  const float keep = p.accumulate ? 1.0f : 0.0f;
  const cudaDataType_t type = data_type(p.type);
  try_cublas(cublas_.gemm_ex(handle_, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(p.outputs),
                             static_cast<int>(p.rows), static_cast<int>(p.inputs), &one, p.weight,
                             type, static_cast<int>(p.inputs), p.x, type,
                             static_cast<int>(p.x_stride), &keep, p.y.data, CUDA_R_32F,
                             static_cast<int>(p.y.stride), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
             "matmul");
}

}  // namespace edgedraft::server
