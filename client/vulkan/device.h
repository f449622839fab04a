#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "client/vulkan/functions.h"
#include "client/vulkan/instance.h"
#include "client/vulkan/vulkan_backend.h"

namespace edgedraft::client::vulkan {

// A logical device with one queue. Submissions run in order, and each raises the timeline by one.
//
// A device that hangs without its driver reporting a loss is abandoned. From then on, no call waits
// for it, and objects that its work may use are not destroyed. The driver keeps it until the
// process ends.
//
// Threads   one at a time
class Device {
 public:
  // Throws Failure if the device cannot be used, DeviceError if it refuses to start.
  Device(const Hooks& hooks, const VulkanBackendOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Functions& functions() const { return instance_.functions(); }
  VkDevice handle() const { return device_; }
  VkCommandPool command_pool() const { return command_pool_.get(); }
  const VulkanDevice& description() const { return description_; }
  // Features enabled at its creation.
  const VulkanFeatures& features() const { return features_; }
  const VkPhysicalDeviceProperties& properties() const { return properties_; }
  const VkPhysicalDeviceMemoryProperties& memory() const { return memory_; }
  // The largest allocation, in bytes.
  std::uint64_t allocation_max() const { return allocation_max_; }
  // The largest binding, in bytes.
  std::uint64_t storage_range_max() const { return storage_range_max_; }
  // Alignment of binding offsets: a multiple of the device's and of four floats.
  std::uint64_t storage_alignment() const { return storage_alignment_; }
  // Seconds per timestamp step; 0 if the queue has no timestamps.
  double timestamp_seconds() const { return timestamp_seconds_; }

  // Throws DeviceError if the device refuses it or was abandoned.
  // Returns   the timeline's value after it has run
  std::uint64_t submit(VkCommandBuffer commands);
  // Throws DeviceError if the device is lost or does not respond.
  void wait(std::uint64_t value);
  // Waits for all submissions.
  void wait_all() { wait(submitted_); }
  // Timeline value that has certainly been reached.
  std::uint64_t done() const { return done_; }
  // For destructors: waits for all submissions, and abandons the device if it hangs.
  void wait_idle() noexcept;

 private:
  void choose(const Hooks& hooks, std::uint32_t index);
  void choose_features(const std::optional<VulkanFeatures>& wanted);
  void start();
  VkResult wait_for(std::uint64_t value) noexcept;

  Instance instance_;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VulkanDevice description_;
  VulkanFeatures features_;
  VkPhysicalDeviceProperties properties_{};
  VkPhysicalDeviceMemoryProperties memory_{};
  std::uint64_t allocation_max_ = 0;
  std::uint64_t storage_range_max_ = 0;
  std::uint64_t storage_alignment_ = 0;
  double timestamp_seconds_ = 0.0;
  std::uint32_t family_ = 0;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  Owned<VkCommandPool, &Functions::DestroyCommandPool> command_pool_;
  Owned<VkSemaphore, &Functions::DestroySemaphore> timeline_;
  std::uint64_t submitted_ = 0;
  std::uint64_t done_ = 0;
  bool hung_ = false;
};

// Makes all earlier writes visible to all later accesses, on the device and to the host's reads.
void full_barrier(const Functions& functions, VkCommandBuffer commands);

}  // namespace edgedraft::client::vulkan
