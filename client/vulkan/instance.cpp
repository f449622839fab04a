#include "client/vulkan/instance.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "shaders/params.h"
#include "shared/runtime/backend.h"

namespace edgedraft::client::vulkan {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";
constexpr std::uint32_t kDevicesMax = 64;

// Calls `enumerate(count, items)` twice, as Vulkan's lists require.
template <class Item, class Enumerate>
std::vector<Item> list(const Item& blank, const char* tried, const Enumerate& enumerate) {
  std::uint32_t count = 0;
  check(enumerate(&count, nullptr), tried);
  std::vector<Item> items(count, blank);
  const VkResult result = enumerate(&count, items.data());
  if (result != VK_INCOMPLETE) check(result, tried);
  items.resize(std::min<std::size_t>(count, items.size()));
  return items;
}

bool has_validation_layer(const Functions& functions) {
  const auto layers = list(VkLayerProperties{}, "list its layers",
                           [&](std::uint32_t* count, VkLayerProperties* items) {
                             return functions.EnumerateInstanceLayerProperties(count, items);
                           });
  return std::any_of(layers.begin(), layers.end(), [](const VkLayerProperties& layer) {
    return std::strcmp(layer.layerName, kValidationLayer) == 0;
  });
}

bool has_name(const std::vector<VkExtensionProperties>& extensions, const char* name) {
  return std::any_of(extensions.begin(), extensions.end(), [&](const VkExtensionProperties& one) {
    return std::strcmp(one.extensionName, name) == 0;
  });
}

bool has_instance_extension(const Functions& functions, const char* name) {
  return has_name(list(VkExtensionProperties{}, "list its instance extensions",
                       [&](std::uint32_t* count, VkExtensionProperties* items) {
                         return functions.EnumerateInstanceExtensionProperties(nullptr, count,
                                                                               items);
                       }),
                  name);
}

std::string version_text(std::uint32_t version) {
  return std::to_string(VK_API_VERSION_MAJOR(version)) + "." +
         std::to_string(VK_API_VERSION_MINOR(version)) + "." +
         std::to_string(VK_API_VERSION_PATCH(version));
}

VulkanDevice::Kind kind_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return VulkanDevice::Kind::discrete;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return VulkanDevice::Kind::integrated;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return VulkanDevice::Kind::virtual_gpu;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return VulkanDevice::Kind::software;
    default:
      return VulkanDevice::Kind::other;
  }
}

// A device may have an older version, or fewer storage buffers than the shaders need. The other
// limits are guaranteed by Vulkan 1.2, but not every driver keeps them.
std::string why_unusable(const VkPhysicalDeviceProperties& p, bool has_queue) {
  constexpr std::uint32_t kBuffers = 1 + shaders::kBindingsMax;
  const VkPhysicalDeviceLimits& limits = p.limits;
  if (p.apiVersion < VK_API_VERSION_1_2) {
    return "its driver supports Vulkan " + version_text(p.apiVersion) + ", and 1.2 is required";
  }
  if (!has_queue) return "it has no compute queue";
  if (std::min(limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers) <
      kBuffers) {
    return "it supports fewer than " + std::to_string(kBuffers) + " storage buffers";
  }
  if (limits.maxComputeWorkGroupInvocations < shaders::kWorkgroupMax ||
      limits.maxComputeWorkGroupSize[0] < shaders::kWorkgroupMax) {
    return "its workgroups are smaller than " + std::to_string(shaders::kWorkgroupMax);
  }
  if (limits.maxComputeSharedMemorySize < shaders::kSharedBytesMax) {
    return "its workgroups have less shared memory than " +
           std::to_string(shaders::kSharedBytesMax) + " bytes";
  }
  return {};
}

// True if lanes can exchange values with seven neighbours in compute shaders, and every workgroup
// of this backend is whole subgroups.
bool exchanges(const VkPhysicalDeviceSubgroupProperties& subgroup) {
  constexpr VkSubgroupFeatureFlags kNeeded =
      VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
  return (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
         (subgroup.supportedOperations & kNeeded) == kNeeded &&
         subgroup.subgroupSize >= shaders::kNeighbours &&
         subgroup.subgroupSize <= shaders::kAttentionWorkgroup;
}

// True if this instance stays open for the life of the process. A driver is unloaded with its last
// instance, and some cannot be reloaded often. NVIDIA's leaks thread-local storage and is no longer
// found after a few reloads.
bool stays_open(VkInstance instance) {
  static std::atomic<VkInstance> kept = VK_NULL_HANDLE;
  VkInstance none = VK_NULL_HANDLE;
  return kept.compare_exchange_strong(none, instance);
}

}  // namespace

Instance::Instance(const Hooks& hooks, bool validate) : hooks_(hooks) {
  auto functions = load_global_functions(hooks_);
  if (!functions) throw Failure(functions.error());
  functions_ = *functions;
  try {
    create(validate);
  } catch (...) {
    destroy();
    throw;
  }
}

void Instance::create(bool validate) {
  std::uint32_t version = 0;
  check(functions_.EnumerateInstanceVersion(&version), "report its loader's version");
  if (version < VK_API_VERSION_1_2) {
    throw Failure(
        {Errc::unsupported, "the Vulkan loader is version " + version_text(version) +
                                ", and 1.2 is required: update libvulkan1, or use --device cpu"});
  }
  const VkApplicationInfo application{.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                      .pApplicationName = "edgedraft",
                                      // 1.2 suffices; newer devices are used with features of 1.3.
                                      .apiVersion = std::min(version, VK_API_VERSION_1_3)};
  VkInstanceCreateInfo info{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                            .pApplicationInfo = &application};
  const VkDebugUtilsMessengerCreateInfoEXT messages{
      .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
      .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                         VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
      .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
      .pfnUserCallback = take_message,
      .pUserData = this};
  std::vector<const char*> extensions;
  // Drivers on top of another interface, such as MoltenVK, are listed only on request.
  if (has_instance_extension(functions_, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
    extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }
  validates_ = validate;
  if (validate) {
    if (!has_validation_layer(functions_)) {
      throw Failure({Errc::unsupported, std::string("no ") + kValidationLayer +
                                            " found: install vulkan-validationlayers"});
    }
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &kValidationLayer;
    extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    info.pNext = &messages;  // for messages about this call and the last one
  }
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  const VkResult created = functions_.CreateInstance(&info, nullptr, &instance_);
  if (created == VK_ERROR_INCOMPATIBLE_DRIVER) {
    throw Failure({Errc::unsupported,
                   "no Vulkan driver found: install one for the GPU, for example "
                   "mesa-vulkan-drivers, or use --device cpu"});
  }
  check(created, "start");
  if (auto loaded = load_instance_functions(functions_, instance_, hooks_); !loaded) {
    throw Failure(loaded.error());
  }
  if (validate && functions_.CreateDebugUtilsMessengerEXT != nullptr) {
    check(functions_.CreateDebugUtilsMessengerEXT(instance_, &messages, nullptr, &messenger_),
          "report validation messages");
  }
}

Instance::~Instance() {
  destroy();
}

void Instance::destroy() {
  if (messenger_ != VK_NULL_HANDLE) {
    functions_.DestroyDebugUtilsMessengerEXT(instance_, messenger_, nullptr);
  }
  // An instance with messages would send them to this object.
  if (instance_ == VK_NULL_HANDLE || (!validates_ && stays_open(instance_))) return;
  if (functions_.DestroyInstance == nullptr) {  // loading the functions failed
    functions_.DestroyInstance = reinterpret_cast<PFN_vkDestroyInstance>(
        functions_.GetInstanceProcAddr(instance_, "vkDestroyInstance"));
  }
  if (functions_.DestroyInstance != nullptr) functions_.DestroyInstance(instance_, nullptr);
}

VkBool32 Instance::take_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                VkDebugUtilsMessageTypeFlagsEXT,
                                const VkDebugUtilsMessengerCallbackDataEXT* data, void* self) {
  auto& instance = *static_cast<Instance*>(self);
  const std::string message = data->pMessage != nullptr ? data->pMessage : "";
  if (instance.hooks_.on_message) {
    instance.hooks_.on_message(message);
  } else {
    std::fprintf(stderr, "Vulkan: %s\n", message.c_str());
    instance.messages_.push_back(message);
  }
  return VK_FALSE;
}

std::vector<VkPhysicalDevice> Instance::physical_devices() const {
  auto devices = list(VkPhysicalDevice{}, "list its devices",
                      [&](std::uint32_t* count, VkPhysicalDevice* items) {
                        return functions_.EnumeratePhysicalDevices(instance_, count, items);
                      });
  if (devices.size() > kDevicesMax) devices.resize(kDevicesMax);
  return devices;
}

std::optional<std::uint32_t> compute_family(const Functions& functions, VkPhysicalDevice device) {
  std::uint32_t count = 0;
  functions.GetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  functions.GetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  std::optional<std::uint32_t> found;
  for (std::uint32_t i = 0; i < count; ++i) {
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0 || families[i].queueCount == 0) {
      continue;
    }
    const bool has_graphics = (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0;
    if (!found || !has_graphics) found = i;
    if (!has_graphics) break;
  }
  return found;
}

bool has_extension(const Functions& functions, VkPhysicalDevice device, const char* name) {
  return has_name(list(VkExtensionProperties{}, "list its extensions",
                       [&](std::uint32_t* count, VkExtensionProperties* items) {
                         return functions.EnumerateDeviceExtensionProperties(device, nullptr, count,
                                                                             items);
                       }),
                  name);
}

VulkanDevice describe(const Functions& functions, VkPhysicalDevice device, std::uint32_t index) {
  VkPhysicalDeviceSubgroupProperties subgroup{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceDriverProperties driver{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES, .pNext = &subgroup};
  VkPhysicalDeviceProperties2 properties{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                         .pNext = &driver};
  functions.GetPhysicalDeviceProperties2(device, &properties);
  const VkPhysicalDeviceProperties& p = properties.properties;
  const bool has_size_control = p.apiVersion >= VK_API_VERSION_1_3 ||
                                (p.apiVersion >= VK_API_VERSION_1_2 &&
                                 has_extension(functions, device, kSubgroupSizeExtension));
  const bool has_dot = p.apiVersion >= VK_API_VERSION_1_3 ||
                       (p.apiVersion >= VK_API_VERSION_1_2 &&
                        has_extension(functions, device, kIntegerDotExtension));
  VkPhysicalDeviceShaderIntegerDotProductProperties dot_speed{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
  if (has_dot) {
    properties.pNext = &dot_speed;
    functions.GetPhysicalDeviceProperties2(device, &properties);
  }

  VkPhysicalDevice16BitStorageFeatures storage16{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
  VkPhysicalDevice8BitStorageFeatures storage8{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES, .pNext = &storage16};
  VkPhysicalDeviceShaderFloat16Int8Features arithmetic{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, .pNext = &storage8};
  VkPhysicalDeviceFeatures2 features{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                     .pNext = &arithmetic};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
  VkPhysicalDeviceSubgroupSizeControlFeatures sizes{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  if (has_dot) {
    dot.pNext = features.pNext;
    features.pNext = &dot;
  }
  if (has_size_control) {
    sizes.pNext = features.pNext;
    features.pNext = &sizes;
  }
  functions.GetPhysicalDeviceFeatures2(device, &features);

  VkPhysicalDeviceMemoryProperties memory{};
  functions.GetPhysicalDeviceMemoryProperties(device, &memory);
  std::uint64_t largest = 0;
  for (std::uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    if ((memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0) {
      largest = std::max<std::uint64_t>(largest, memory.memoryHeaps[i].size);
    }
  }
  const auto family = compute_family(functions, device);
  const VulkanFeatures has{
      .narrow_storage = storage16.storageBuffer16BitAccess == VK_TRUE &&
                        storage8.storageBuffer8BitAccess == VK_TRUE,
      .float16 = arithmetic.shaderFloat16 == VK_TRUE,
      .integer_dot = dot.shaderIntegerDotProduct == VK_TRUE,
      .subgroups = exchanges(subgroup) && sizes.computeFullSubgroups == VK_TRUE};
  VulkanFeatures used = has;
  // Emulated dot products would not be faster, and rounding costs accuracy.
  used.integer_dot =
      has.integer_dot && dot_speed.integerDotProduct4x8BitPackedSignedAccelerated == VK_TRUE;
  return {.index = index,
          .name = p.deviceName,
          .driver = std::string(driver.driverName) + " " + driver.driverInfo,
          .api_version = version_text(p.apiVersion),
          .kind = kind_of(p.deviceType),
          .memory_bytes = largest,
          .features = has,
          .used = used,
          .timestamps = p.limits.timestampComputeAndGraphics == VK_TRUE,
          .subgroup_width = subgroup.subgroupSize,
          .unusable = why_unusable(p, family.has_value())};
}

}  // namespace edgedraft::client::vulkan

namespace edgedraft::client {

std::vector<VulkanDevice> list_vulkan_devices() {
  try {
    const vulkan::Instance instance({}, false);
    std::vector<VulkanDevice> devices;
    std::uint32_t index = 0;
    for (const VkPhysicalDevice device : instance.physical_devices()) {
      try {
        devices.push_back(describe(instance.functions(), device, index));
      } catch (const DeviceError&) {  // a driver that fails hides only its own devices
      }
      ++index;
    }
    return devices;
  } catch (const Failure&) {
  } catch (const DeviceError&) {
  }
  return {};  // no loader, or no driver that starts
}

}  // namespace edgedraft::client
