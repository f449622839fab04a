#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

// From which on graphs keep early starts.
constexpr int kVersionMin = 12030;

}  // namespace

unsigned early_start(cudaLaunchAttribute& attribute) {
  static const int driver_version = [] {
    int version = 0;
    return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
  }();
  int device = 0;
  int major = 0;
  if (CUDART_VERSION < kVersionMin || driver_version < kVersionMin ||
      cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      major < 9) {
    return 0;
  }
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return 1;
}

}  // namespace edgedraft::cuda
