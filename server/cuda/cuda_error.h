#pragma once

#include <cuda_runtime.h>

#include <string>

#include "shared/runtime/backend.h"

namespace edgedraft::server {

// Throws DeviceError if `status` is an error; `what` names the operation, e.g. "reading results".
inline void try_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  // Clears the error, so that the next call does not report it again.
  static_cast<void>(cudaGetLastError());
  throw DeviceError(std::string("CUDA: ") + what + ": " + cudaGetErrorString(status) + " (" +
                    cudaGetErrorName(status) + ")");
}

}  // namespace edgedraft::server
