#include "client/vulkan/device.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "shared/runtime/backend.h"

namespace edgedraft::client::vulkan {
namespace {

constexpr std::uint64_t kVectorBytes = 16;

// Time per submission after which a device counts as hung; drafting stops meanwhile. A GPU takes
// milliseconds, and a weak one seconds for the largest submission (stream.cpp). Drivers with a
// watchdog usually report a loss sooner. A rasteriser cannot hang, but is very slow under
// sanitizers on a busy machine.
std::uint64_t hang_nanoseconds(VulkanDevice::Kind kind) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  return (kind == VulkanDevice::Kind::software ? 300 : 30) * kSecond;
}

}  // namespace

Device::Device(const Hooks& hooks, const VulkanBackendOptions& options)
    : instance_(hooks, options.validate) {
  choose(hooks, options.device);
  choose_features(options.features);
  try {
    start();
  } catch (...) {
    timeline_ = {};
    command_pool_ = {};
    if (device_ != VK_NULL_HANDLE) functions().DestroyDevice(device_, nullptr);
    throw;
  }
}

void Device::choose(const Hooks& hooks, std::uint32_t index) {
  const auto devices = instance_.physical_devices();
  if (index >= devices.size()) {
    throw Failure({Errc::unsupported, "no Vulkan device " + std::to_string(index) + " among " +
                                          std::to_string(devices.size()) +
                                          ": see `edgedraft devices`, or use --device cpu"});
  }
  physical_ = devices[index];
  description_ = describe(functions(), physical_, index);
  if (!description_.unusable.empty()) {
    throw Failure({Errc::unsupported, description_.name + " cannot be used: " +
                                          description_.unusable + "; use --device cpu"});
  }
  VkPhysicalDeviceMaintenance3Properties sizes{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
  VkPhysicalDeviceProperties2 properties{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                         .pNext = &sizes};
  functions().GetPhysicalDeviceProperties2(physical_, &properties);
  properties_ = properties.properties;
  allocation_max_ = sizes.maxMemoryAllocationSize;
  functions().GetPhysicalDeviceMemoryProperties(physical_, &memory_);
  storage_range_max_ = properties_.limits.maxStorageBufferRange;
  if (hooks.storage_range_max != 0) {
    storage_range_max_ = std::min(storage_range_max_, hooks.storage_range_max);
  }
  storage_alignment_ =
      std::max<std::uint64_t>(properties_.limits.minStorageBufferOffsetAlignment, kVectorBytes);
  family_ = compute_family(functions(), physical_).value_or(0);
  if (description_.timestamps) {
    timestamp_seconds_ = double{properties_.limits.timestampPeriod} * 1e-9;
  }
}

void Device::choose_features(const std::optional<VulkanFeatures>& wanted) {
  features_ = wanted.value_or(description_.used);
  const VulkanFeatures& there = description_.features;
  const std::tuple<bool, bool, const char*> all[] = {
      {features_.narrow_storage, there.narrow_storage, "8- and 16-bit storage"},
      {features_.float16, there.float16, "float16"},
      {features_.integer_dot, there.integer_dot, "integer dot products"},
      {features_.subgroups, there.subgroups, "full subgroups with shuffles"}};
  for (const auto& [is_wanted, is_there, name] : all) {
    if (is_wanted && !is_there) {
      throw Failure({Errc::unsupported,
                     description_.name + " does not support " + name +
                         ": disable that feature; `edgedraft devices` lists the supported ones"});
    }
  }
}

void Device::start() {
  const float priority = 1.0f;
  const VkDeviceQueueCreateInfo queue{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                      .queueFamilyIndex = family_,
                                      .queueCount = 1,
                                      .pQueuePriorities = &priority};
  // Timelines exist on every Vulkan 1.2 device but, like all features, must be enabled. Unused
  // features stay disabled.
  VkPhysicalDeviceTimelineSemaphoreFeatures timelines{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
      .timelineSemaphore = VK_TRUE};
  void* chain = &timelines;
  const auto use = [&chain](auto& feature) {
    feature.pNext = chain;
    chain = &feature;
  };
  VkPhysicalDevice16BitStorageFeatures storage16{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
      .storageBuffer16BitAccess = VK_TRUE};
  VkPhysicalDevice8BitStorageFeatures storage8{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES,
      .storageBuffer8BitAccess = VK_TRUE};
  VkPhysicalDeviceShaderFloat16Int8Features arithmetic{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
      .shaderFloat16 = VK_TRUE};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
      .shaderIntegerDotProduct = VK_TRUE};
  VkPhysicalDeviceSubgroupSizeControlFeatures full_subgroups{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
      .computeFullSubgroups = VK_TRUE};
  if (features_.narrow_storage) {
    use(storage16);
    use(storage8);
  }
  if (features_.float16) use(arithmetic);
  std::vector<const char*> extensions;
  // A device on top of another interface has this extension, which must then be enabled. The
  // features that it may lack (VkPhysicalDevicePortabilitySubsetFeaturesKHR) are not used by
  // compute shaders.
  if (has_extension(functions(), physical_, kPortabilitySubsetExtension)) {
    extensions.push_back(kPortabilitySubsetExtension);
  }
  if (features_.integer_dot) {
    use(dot);
    // Part of Vulkan 1.3, whose drivers keep the name; older drivers need the extension.
    if (has_extension(functions(), physical_, kIntegerDotExtension)) {
      extensions.push_back(kIntegerDotExtension);
    }
  }
  if (features_.subgroups) {
    use(full_subgroups);
    if (has_extension(functions(), physical_, kSubgroupSizeExtension)) {
      extensions.push_back(kSubgroupSizeExtension);
    }
  }
  const VkDeviceCreateInfo info{
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
      .pNext = chain,
      .queueCreateInfoCount = 1,
      .pQueueCreateInfos = &queue,
      .enabledExtensionCount = static_cast<std::uint32_t>(extensions.size()),
      .ppEnabledExtensionNames = extensions.data()};
  check(functions().CreateDevice(physical_, &info, nullptr, &device_), "open");
  functions().GetDeviceQueue(device_, family_, 0, &queue_);

  const VkCommandPoolCreateInfo pool{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                     .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                     .queueFamilyIndex = family_};
  command_pool_ = {functions(), device_, &Functions::CreateCommandPool, pool,
                   "create a command pool"};

  const VkSemaphoreTypeCreateInfo timeline{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                           .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
                                           .initialValue = 0};
  const VkSemaphoreCreateInfo semaphore{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                        .pNext = &timeline};
  timeline_ = {functions(), device_, &Functions::CreateSemaphore, semaphore, "create a semaphore"};
}

Device::~Device() {
  wait_idle();
  timeline_ = {};
  command_pool_ = {};
  functions().DestroyDevice(device_, nullptr);
}

std::uint64_t Device::submit(VkCommandBuffer commands) {
  const std::uint64_t value = submitted_ + 1;
  const VkTimelineSemaphoreSubmitInfo timeline{
      .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
      .signalSemaphoreValueCount = 1,
      .pSignalSemaphoreValues = &value};
  const VkSemaphore semaphore = timeline_.get();
  const VkSubmitInfo info{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                          .pNext = &timeline,
                          .commandBufferCount = 1,
                          .pCommandBuffers = &commands,
                          .signalSemaphoreCount = 1,
                          .pSignalSemaphores = &semaphore};
  check(hung_ ? VK_TIMEOUT : functions().QueueSubmit(queue_, 1, &info, VK_NULL_HANDLE),
        "accept work");
  submitted_ = value;
  return value;
}

void Device::wait(std::uint64_t value) {
  check(wait_for(value), "finish its work");
  if (!instance_.messages().empty()) {
    throw DeviceError("the Vulkan validation layer reports: " + instance_.messages().front());
  }
}

VkResult Device::wait_for(std::uint64_t value) noexcept {
  if (value <= done_) return VK_SUCCESS;
  if (hung_) return VK_TIMEOUT;
  const VkSemaphore semaphore = timeline_.get();
  const VkSemaphoreWaitInfo info{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                 .semaphoreCount = 1,
                                 .pSemaphores = &semaphore,
                                 .pValues = &value};
  // One wait for all of them, because a wake-up per submission costs more than some submissions.
  const VkResult result = functions().WaitSemaphores(
      device_, &info, (value - done_) * hang_nanoseconds(description_.kind));
  if (result == VK_SUCCESS) done_ = value;
  if (result == VK_TIMEOUT) {
    hung_ = true;
    instance_.abandon();
  }
  return result;
}

void Device::wait_idle() noexcept {
  (void)wait_for(submitted_);
  // This call has no timeout and would never return on a hung device. It returns if all work has
  // run, or if the device has reported its loss.
  if (!hung_ && functions().DeviceWaitIdle(device_) == VK_SUCCESS) done_ = submitted_;
}

void full_barrier(const Functions& functions, VkCommandBuffer commands) {
  constexpr VkAccessFlags kDeviceAccess = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                                          VK_ACCESS_TRANSFER_READ_BIT |
                                          VK_ACCESS_TRANSFER_WRITE_BIT;
  constexpr VkPipelineStageFlags kDeviceStages =
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  const VkMemoryBarrier barrier{
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
      .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
      .dstAccessMask = kDeviceAccess | VK_ACCESS_HOST_READ_BIT};
  functions.CmdPipelineBarrier(commands, kDeviceStages, kDeviceStages | VK_PIPELINE_STAGE_HOST_BIT,
                               0, 1, &barrier, 0, nullptr, 0, nullptr);
}

}  // namespace edgedraft::client::vulkan
