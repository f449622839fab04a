#include <cstring>
#include <string>

#include "kernels/cuda/check/support.h"

namespace {

constexpr const char* kUsage =
    "Check the CUDA kernels against float64, or measure them. Prints Markdown.\n"
    "\n"
    "  edgedraft-cuda-check          check every operation at sizes of Llama 3 8B\n"
    "  edgedraft-cuda-check --small  check every operation at small sizes\n"
    "  edgedraft-cuda-check --bench  measure kernels and whole passes by width\n"
    "  --only TEXT                   with --bench: kernels with TEXT in their name, or `passes`\n"
    "  --device N                    index of the GPU (default: 0)\n"
    "\n"
    "Exit code: 0 success, 1 a check failed, 2 usage error, 77 no usable GPU.\n";

// Exit code for `skipped`, as in CTest and Automake.
constexpr int kSkipped = 77;

}  // namespace

int main(int argc, char** argv) {
  namespace check = edgedraft::cuda::check;
  bool small = false;
  bool bench = false;
  std::string only;
  int device = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--small") == 0) {
      small = true;
    } else if (std::strcmp(argv[i], "--bench") == 0) {
      bench = true;
    } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      only = argv[++i];
    } else if (std::strcmp(argv[i], "--device") == 0 && i + 1 < argc) {
      device = std::atoi(argv[++i]);
    } else {
      std::fputs(kUsage, std::strcmp(argv[i], "--help") == 0 ? stdout : stderr);
      return std::strcmp(argv[i], "--help") == 0 ? 0 : 2;
    }
  }
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || device >= count) {
    std::fprintf(stderr, "skipped: no CUDA device %d\n", device);
    return kSkipped;
  }
  check::must(cudaSetDevice(device), "cudaSetDevice");
  cudaDeviceProp properties{};
  check::must(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  int driver = 0;
  int runtime = 0;
  check::must(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check::must(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  std::printf(
      "%s, compute capability %d.%d, %d multiprocessors, %zu MiB; CUDA %d.%d, driver for "
      "%d.%d.\n\n",
      properties.name, properties.major, properties.minor, properties.multiProcessorCount,
      properties.totalGlobalMem >> 20, runtime / 1000, runtime % 1000 / 10, driver / 1000,
      driver % 1000 / 10);
  if (bench) {
    check::run_bench(small, only);
    return 0;
  }
  return check::run_checks(small) == 0 ? 0 : 1;
}
