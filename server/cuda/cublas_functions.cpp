#include "server/cuda/cublas_functions.h"

#include <dlfcn.h>

#include <string>

#include "shared/runtime/backend.h"

namespace edgedraft::server {
namespace {

class CublasLibrary {
 public:
  CublasLibrary() {
    // The system loader's path, or the toolkit of this build.
    const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
    for (const std::string& file : {name, EDGEDRAFT_CUBLAS_FOLDER "/" + name}) {
      handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
    }
    throw DeviceError(std::string("cuBLAS: ") + dlerror() +
                      "; install the CUDA libraries, add their folder to LD_LIBRARY_PATH, or "
                      "use --device cpu");
  }

  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (function == nullptr) throw DeviceError(std::string("cuBLAS: missing function ") + name);
  }

 private:
  void* handle_ = nullptr;  // never unloaded: GPUs are used until exit
};

CublasFunctions load() {
  const CublasLibrary library;
  CublasFunctions functions;
  library.find("cublasCreate_v2", functions.create);
  library.find("cublasDestroy_v2", functions.destroy);
  library.find("cublasSetStream_v2", functions.set_stream);
  library.find("cublasSetWorkspace_v2", functions.set_workspace);
  library.find("cublasGemmEx", functions.gemm_ex);
  library.find("cublasGetStatusString", functions.status_string);
  return functions;
}

}  // namespace

const CublasFunctions& cublas_functions() {
  static const CublasFunctions functions = load();
  return functions;
}

}  // namespace edgedraft::server
