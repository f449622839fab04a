#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "shared/base/error.h"
#include "shared/base/progress.h"
#include "shared/runtime/backend.h"

namespace edgedraft::server {

struct DeviceOptions {
  std::string device = "auto";  // auto, cpu, cuda or cuda:N
  std::uint32_t threads = 0;    // for the CPU; 0: one per fast core
  bool deterministic = false;   // batch invariance (shared/runtime/backend.h) on a GPU, too
  bool cuda_graphs = true;      // runs repeated passes as CUDA graphs
  // Called with a sentence if a feature is unavailable or slower than expected; may be empty.
  std::function<void(const std::string&)> on_notice;
  // Label of an upload's progress line, and its expected bytes.
  std::string upload_label;
  std::uint64_t upload_bytes = 0;
};

struct OpenedDevice {
  std::unique_ptr<Backend> backend;
  std::string reason;           // device chosen and why, for the log
  std::string arithmetic;       // equal for devices that compute the same bits
  std::uint64_t memory_bytes;   // device memory, or the part usable by this process; 0: unknown
  std::uint64_t scratch_bytes;  // scratch that operations may allocate on first use
  // Progress line of uploads; null on the CPU. Release it after the model is loaded.
  std::shared_ptr<Progress> upload;
};

// Opens the compute device. `auto` takes the first usable CUDA device, as `cuda` does, else the
// CPU.
// Errors    usage        unknown device kind
//           unsupported  CUDA was requested and is unavailable, with the remedy
Result<OpenedDevice> open_device(const DeviceOptions& options);

}  // namespace edgedraft::server
