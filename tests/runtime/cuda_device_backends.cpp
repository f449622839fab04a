#include "server/cuda/cuda_backend.h"
#include "tests/runtime/op_test.h"

namespace edgedraft::testing {
using namespace server;
namespace {

// Deterministic: otherwise a library computes wide matmuls.
const AddDeviceBackends added({{"cuda", [] {
                                  std::unique_ptr<Backend> backend;
                                  if (cuda_devices()) {
                                    backend = make_cuda_backend({.deterministic = true});
                                  }
                                  return backend;
                                }}});

}  // namespace
}  // namespace edgedraft::testing
