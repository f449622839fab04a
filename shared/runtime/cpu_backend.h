#pragma once

#include <memory>

#include "shared/runtime/backend.h"

namespace edgedraft::cpu {
struct Kernels;
}

namespace edgedraft {

// CPU backend on the given kernels, for tests and measurements; make_cpu_backend picks the best.
std::unique_ptr<Backend> make_cpu_backend_with(const cpu::Kernels& kernels,
                                               const CpuBackendOptions& options);

}  // namespace edgedraft
