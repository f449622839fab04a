#pragma once

#include <string>
#include <vector>

#include "client/vulkan/vulkan_backend.h"

namespace edgedraft::client {

// A Vulkan backend with instrumentation for measurements and tests.
class MeasuredBackend : public Backend {
 public:
  using Backend::Backend;

  enum class Timing {
    none,
    whole,  // one time for all work between two waits
    each,   // one time per operation; operations do not overlap
  };
  struct OperationTime {
    std::string name;  // the shader's; "all" with Timing::whole
    double seconds;    // by the device's clock
  };
  struct Counts {
    std::uint64_t runs = 0;        // of command buffers
    std::uint64_t recordings = 0;  // runs that had to be recorded first
  };

  virtual const VulkanDevice& device() const = 0;
  // Features in use.
  virtual const VulkanFeatures& features() const = 0;
  // Requires  device().timestamps, or Timing::none
  virtual void set_timing(Timing timing) = 0;
  // Times of the work before the last wait.
  virtual std::vector<OperationTime> take_times() = 0;
  virtual Counts counts() const = 0;
  // Best of a dozen copies of `bytes` within device memory: bytes read and written per second, by
  // wall time.
  virtual double copy_bytes_per_second(std::uint64_t bytes) = 0;
};

// Creates a backend on a Vulkan 1.2 device, with `name()` "vulkan". It keeps copies of uploaded
// data, and batches operations until a call waits: read, top_k, argmax.
//
// Errors    unsupported: a build without Vulkan, no loader, no such device, an unusable device, a
//           missing feature that was requested or that kv_type needs, no validation layer; io: the
//           device failed to start. All name the remedy.
Result<std::unique_ptr<MeasuredBackend>> make_vulkan_backend(const VulkanBackendOptions& options);

}  // namespace edgedraft::client
