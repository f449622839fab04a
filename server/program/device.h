#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "shared/base/error.h"
#include "shared/base/progress.h"
#include "shared/runtime/backend.h"

namespace edgedraft {

struct DeviceOptions {
  std::string device = "auto";  // auto, cpu, cuda or cuda:N
  std::uint32_t threads = 0;    // of the CPU; 0: one per fast core
  bool deterministic = false;   // shared/runtime/backend.h's promise in full, on a GPU too
  bool cuda_graphs = true;      // passes that come again start in one call
  // Told in a sentence what works less well than it could; may be empty.
  std::function<void(const std::string&)> on_notice;
  // What the progress line of an upload says, and the bytes that are expected.
  std::string upload_label;
  std::uint64_t upload_bytes = 0;
};

struct OpenedDevice {
  std::unique_ptr<Backend> backend;
  std::string reason;           // where it computes and why, for the log
  std::uint64_t memory_bytes;   // of the device, or that this process may fill; 0: unknown
  std::uint64_t scratch_bytes;  // that operations may take in it when they first need it
  // The line of the uploads to come; null on the CPU. To be released when the model is loaded.
  std::shared_ptr<Progress> upload;
};

// Opens what the server computes on. `auto` takes the first CUDA device that can be used, as `cuda`
// does, else the CPU.
// Errors    usage        no such kind of device
//           unsupported  CUDA was asked for and is not to be had, with the remedy
Result<OpenedDevice> open_device(const DeviceOptions& options);

}  // namespace edgedraft
