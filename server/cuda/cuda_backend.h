#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/runtime/backend.h"

namespace edgedraft::server {

struct CudaDevice {
  int index;
  std::string name;
  std::uint64_t memory_bytes;
};

// Devices new enough for our kernels. Creating a backend checks whether this build has code for one
// and whether it may be used.
// Errors    unsupported  no driver, no device, or none new enough; the text is for users
Result<std::vector<CudaDevice>> cuda_devices();

struct CudaBackendOptions {
  int device = 0;
  // One summation order for every row count, so that drafted output equals plain output bit for
  // bit. Otherwise matmuls of F32, F16 and BF16 weights with more than kOwnProductRowsMax rows use
  // cuBLAS, which rounds activations to the weight's type.
  bool deterministic = false;
  // Repeated passes start as one CUDA graph. Results are bit-identical either way.
  bool graphs = true;
  // Memory for attention's partial sums, which grow with rows x context; a call that needs more
  // runs in groups of rows. Allocated on first use, then kept. One row of a very long context may
  // exceed it (beyond two million tokens with an 8B model). A call over few slots may take up to 68
  // MiB. Results are bit-identical for any value.
  std::uint64_t attention_scratch_bytes = std::uint64_t{256} << 20;
  // Called with a sentence if graphs are unavailable.
  std::function<void(const std::string&)> on_notice;
  // Called with the size of each uploaded part of a weight.
  std::function<void(std::uint64_t)> on_upload;
};

inline constexpr std::uint32_t kOwnProductRowsMax = 16;

// An NVIDIA GPU. Everything runs on one stream; memory comes from the device's pool, which keeps
// released memory, so that sessions come and go without driver calls.
//
// Throws    DeviceError if the device cannot be used
std::unique_ptr<Backend> make_cuda_backend(const CudaBackendOptions& options);

}  // namespace edgedraft::server
