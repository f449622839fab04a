#include "server/cuda/cuda_backend.h"
#include "tests/runtime/op_test.h"

namespace edgedraft::testing {
using namespace server;
namespace {

// The CUDA backend on the host's stand-in for a device (tests/cuda_host). Deterministic: otherwise
// a library computes wide matmuls.
const AddDeviceBackends added({{"cuda_on_host",
                                [] { return make_cuda_backend({.deterministic = true}); }}});

}  // namespace
}  // namespace edgedraft::testing
