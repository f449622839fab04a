#pragma once

#include <string>
#include <vector>

#include "client/vulkan/vulkan_backend.h"

namespace edgedraft {

// A Vulkan backend that can be watched, for measurements and tests.
class MeasuredBackend : public Backend {
 public:
  using Backend::Backend;

  enum class Timing {
    none,
    whole,  // one figure for everything between two waits
    each,   // a figure an operation, none of which overlap then
  };
  struct OperationTime {
    std::string name;  // of the shader; "all" with Timing::whole
    double seconds;    // by the device's clock
  };
  struct Counts {
    std::uint64_t runs = 0;        // of command buffers
    std::uint64_t recordings = 0;  // of these, how many had to be recorded first
  };

  virtual const VulkanDevice& device() const = 0;
  // Those in use.
  virtual const VulkanFeatures& features() const = 0;
  // Requires  device().timestamps, or Timing::none
  virtual void set_timing(Timing timing) = 0;
  // What ran before the last wait.
  virtual std::vector<OperationTime> take_times() = 0;
  virtual Counts counts() const = 0;
  // The best of a dozen copies of `bytes` within the device's memory: bytes read and written a
  // second, by wall time.
  virtual double copy_bytes_per_second(std::uint64_t bytes) = 0;
};

// A Backend that computes on a Vulkan 1.2 device, `name()` "vulkan". It keeps copies of what it is
// given to upload, and gathers operations until a call waits: read, top_k, argmax.
//
// Errors    unsupported: a build without Vulkan, no loader, no such device, one that cannot be
//           used or lacks a feature that was asked for or that kv_type needs, no validation layer;
//           io: the device refused to start. All name the remedy.
Result<std::unique_ptr<MeasuredBackend>> make_vulkan_backend(const VulkanBackendOptions& options);

}  // namespace edgedraft
