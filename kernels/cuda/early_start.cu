#include <map>
#include <utility>

#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

// First toolkit and driver whose graphs keep early starts.
constexpr int kVersionMin = 12030;
// First devices and compile targets with griddepcontrol (device.cuh).
constexpr int kMajorMin = 9;
constexpr int kPtxMin = 90;

bool may_start_early(const void* kernel, int device) {
  if (CUDART_VERSION < kVersionMin) return false;
  int driver = 0;
  int major = 0;
  cudaFuncAttributes compiled{};
  return cudaDriverGetVersion(&driver) == cudaSuccess && driver >= kVersionMin &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major >= kMajorMin && cudaFuncGetAttributes(&compiled, kernel) == cudaSuccess &&
         compiled.ptxVersion >= kPtxMin;
}

}  // namespace

unsigned early_start(const void* kernel, cudaLaunchAttribute& attribute) {
  // Cached per kernel and device, and per thread to avoid locks.
  thread_local std::map<std::pair<const void*, int>, bool> known;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  auto found = known.find({kernel, device});
  if (found == known.end()) {
    found = known.emplace(std::pair(kernel, device), may_start_early(kernel, device)).first;
  }
  if (!found->second) return 0;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return 1;
}

}  // namespace edgedraft::cuda
