#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/runtime/backend.h"

namespace edgedraft {

struct CudaDevice {
  int index;
  std::string name;
  std::uint64_t memory_bytes;
};

// The devices that are new enough for our kernels. Whether this build has code for one, and whether
// it may be used, is seen when a backend is made.
// Errors    unsupported  no driver, no device, or none that is new enough, in words for a user
Result<std::vector<CudaDevice>> cuda_devices();

struct CudaBackendOptions {
  int device = 0;
  // One order of summation for every number of rows, so that drafted output equals plain output bit
  // for bit. Without it, products of F32, F16 and BF16 weights with more than kOwnProductRowsMax
  // rows are cuBLAS's, which rounds activations to the weight's type.
  bool deterministic = false;
  // Passes that come again start as one CUDA graph. No bit of a result depends on it.
  bool graphs = true;
  // Memory for attention's partial sums, which grow with rows x context: a call that needs more
  // runs some rows at a time. It is taken when it is first needed, and kept. One row of a very long
  // context may still take more (an 8B model's beyond two million tokens), and a call over few
  // slots up to 68 MiB. No bit of a result depends on it.
  std::uint64_t attention_scratch_bytes = std::uint64_t{256} << 20;
  // Told in a sentence where graphs turn out not to be possible.
  std::function<void(const std::string&)> on_notice;
  // Called with the bytes of each part of a weight that has been handed to the device.
  std::function<void(std::uint64_t)> on_upload;
};

inline constexpr std::uint32_t kOwnProductRowsMax = 16;

// An NVIDIA GPU. Everything runs on one stream; memory comes from the device's pool, which keeps
// what is released, so that sessions come and go without the driver.
//
// Throws    DeviceError where the device cannot be used
std::unique_ptr<Backend> make_cuda_backend(const CudaBackendOptions& options);

}  // namespace edgedraft
