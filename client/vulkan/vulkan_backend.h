#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft::client {

// Features used beyond those of every Vulkan 1.2 device. Verified answers are the same with and
// without them.
struct VulkanFeatures {
  // Storage buffers of 8- and 16-bit elements: scales, f16 and bytes of K types are read as stored.
  bool narrow_storage = false;
  // Half precision for decoding integers of q8_0 and q4_0, which is exact. Products and sums are
  // float32.
  bool float16 = false;
  // Dot products of four int8: activations are rounded to int8 for q8_0 and q4_0, as on the CPU
  // (MatmulOp).
  bool integer_dot = false;
  // Neighbouring lanes exchange values within their subgroup instead of through shared memory, in
  // the same order, so results are bit-identical.
  bool subgroups = false;

  bool operator==(const VulkanFeatures&) const = default;
};

// A physical device, as listed by Vulkan's loader.
struct VulkanDevice {
  std::uint32_t index;  // N of --device vulkan:N
  std::string name;
  std::string driver;       // name and version
  std::string api_version;  // such as "1.3.230"
  enum class Kind { discrete, integrated, virtual_gpu, software, other } kind;
  std::uint64_t memory_bytes;  // largest heap of the device's own memory
  VulkanFeatures features;     // supported
  VulkanFeatures used;         // used unless VulkanBackendOptions name others: those that pay off
  bool timestamps;
  std::uint32_t subgroup_width;
  std::string
      unusable;  // why it cannot be used, such as a limit that is too small; empty if usable
};

// Empty without a loader or driver, or in a build without Vulkan.
std::vector<VulkanDevice> list_vulkan_devices();

struct VulkanBackendOptions {
  std::uint32_t device = 0;                     // VulkanDevice::index
  std::filesystem::path cache_directory;        // for compiled pipelines; empty: no cache
  bool validate = false;                        // requires Khronos' validation layer
  std::optional<VulkanFeatures> features = {};  // exactly these; absent: VulkanDevice::used
  DType kv_type = DType::f32;  // of drafters' keys and values: f32, i8, or f16 with narrow_storage
  // Counts memory on the device and memory shared with the host. Null: its own meter, without a
  // limit.
  std::shared_ptr<MemoryMeter> meter = nullptr;
};

// Returns a backend without memory (shared/runtime/planning_backend.h), whose meter reports what
// the device's would hold within a limit. Without a limit that backend takes memory in blocks of 64
// MiB, of which up to a quarter may be unused. The driver's own memory is not included.
//
// Errors    unsupported: a build without Vulkan
Result<std::unique_ptr<Backend>> plan_vulkan_backend(const VulkanFeatures& used,
                                                     DType kv_type = DType::f32);

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
