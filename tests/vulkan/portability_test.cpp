#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "shaders/embedded.h"
#include "tests/vulkan/vulkan_support.h"

// Devices that are not fully Vulkan: drivers layered on another interface (MoltenVK) and those
// without guaranteed infinities.
namespace edgedraft::testing {
namespace {

// Records requests, and keeps the real functions.
struct Seen {
  VkInstanceCreateFlags instance_flags = 0;
  std::vector<std::string> instance_extensions;
  std::vector<std::string> device_extensions;
  PFN_vkCreateInstance create_instance = nullptr;
  PFN_vkCreateDevice create_device = nullptr;
  PFN_vkEnumerateInstanceExtensionProperties instance_properties = nullptr;
  PFN_vkEnumerateDeviceExtensionProperties device_properties = nullptr;
};
Seen seen;

bool has(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Appends one entry to an enumerated list.
template <class Enumerate>
VkResult with_one_more(const char* name, std::uint32_t* count, VkExtensionProperties* items,
                       const Enumerate& enumerate) {
  std::uint32_t others = 0;
  if (const VkResult counted = enumerate(&others, nullptr); counted != VK_SUCCESS) return counted;
  if (items == nullptr) {
    *count = others + 1;
    return VK_SUCCESS;
  }
  if (*count < others + 1) return VK_INCOMPLETE;
  const VkResult result = enumerate(&others, items);
  items[others] = {};
  std::strncpy(items[others].extensionName, name, VK_MAX_EXTENSION_NAME_SIZE - 1);
  *count = others + 1;
  return result;
}

// Names in a list of extensions, and the list with one removed.
struct Names {
  Names(std::uint32_t count, const char* const* list, const char* without)
      : all(list, list + count) {
    std::copy_if(list, list + count, std::back_inserter(rest),
                 [&](const char* one) { return std::strcmp(one, without) != 0; });
  }
  std::vector<std::string> all;
  std::vector<const char*> rest;
};

VkResult list_instance_extensions(const char* layer, std::uint32_t* count,
                                  VkExtensionProperties* items) {
  return with_one_more(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME, count, items,
                       [&](std::uint32_t* n, VkExtensionProperties* i) {
                         return seen.instance_properties(layer, n, i);
                       });
}
VkResult create_instance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* allocator,
                         VkInstance* instance) {
  const Names names(info->enabledExtensionCount, info->ppEnabledExtensionNames,
                    VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
  seen.instance_flags = info->flags;
  seen.instance_extensions = names.all;
  VkInstanceCreateInfo plain = *info;
  plain.flags = 0;
  plain.enabledExtensionCount = static_cast<std::uint32_t>(names.rest.size());
  plain.ppEnabledExtensionNames = names.rest.data();
  return seen.create_instance(&plain, allocator, instance);
}
VkResult list_device_extensions(VkPhysicalDevice device, const char* layer, std::uint32_t* count,
                                VkExtensionProperties* items) {
  return with_one_more("VK_KHR_portability_subset", count, items,
                       [&](std::uint32_t* n, VkExtensionProperties* i) {
                         return seen.device_properties(device, layer, n, i);
                       });
}
VkResult create_device(VkPhysicalDevice device, const VkDeviceCreateInfo* info,
                       const VkAllocationCallbacks* allocator, VkDevice* made) {
  const Names names(info->enabledExtensionCount, info->ppEnabledExtensionNames,
                    "VK_KHR_portability_subset");
  seen.device_extensions = names.all;
  VkDeviceCreateInfo plain = *info;
  plain.enabledExtensionCount = static_cast<std::uint32_t>(names.rest.size());
  plain.ppEnabledExtensionNames = names.rest.data();
  return seen.create_device(device, &plain, allocator, made);
}
// Makes any loader and device look like MoltenVK's.
void make_portable(vulkan::Functions& f) {
  intercept(f.EnumerateInstanceExtensionProperties, seen.instance_properties,
            list_instance_extensions);
  intercept(f.CreateInstance, seen.create_instance, create_instance);
  intercept(f.EnumerateDeviceExtensionProperties, seen.device_properties, list_device_extensions);
  intercept(f.CreateDevice, seen.create_device, create_device);
}

class PortabilityTest : public VulkanTest {};

TEST_F(PortabilityTest, RequestsPortabilityDriversAndEnablesSubset) {
  seen = {};
  const auto backend = open_with({.adjust = make_portable});
  ASSERT_TRUE(backend) << backend.error().message;
  EXPECT_TRUE(has(seen.instance_extensions, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME));
  EXPECT_NE(seen.instance_flags & VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR, 0u);
  EXPECT_TRUE(has(seen.device_extensions, "VK_KHR_portability_subset"));
}

// Without SignedZeroInfNanPreserve a driver may assume that no infinity occurs. No shader uses one
// as a constant in arithmetic.
TEST(ShaderTest, HasNoInfinityConstant) {
  constexpr std::uint32_t kOpTypeFloat = 22;
  constexpr std::uint32_t kOpConstant = 43;
  constexpr std::size_t kHeaderWords = 5;
  for (std::size_t i = 0; i < shaders::kShaderCount; ++i) {
    const auto shader = static_cast<shaders::Shader>(i);
    for (shaders::Features features = 0; features <= shaders::kAllFeatures; ++features) {
      const auto words = shaders::spirv(shader, features).words;
      std::uint32_t float32 = 0;
      for (std::size_t at = kHeaderWords; at < words.size(); at += words[at] >> 16) {
        ASSERT_GT(words[at] >> 16, 0u);
        const std::uint32_t op = words[at] & 0xFFFFu;
        if (op == kOpTypeFloat && words[at + 2] == 32) float32 = words[at + 1];
        if (op != kOpConstant || words[at + 1] != float32) continue;
        EXPECT_NE(words[at + 3] & 0x7FFFFFFFu, 0x7F800000u) << shaders::name(shader);
      }
    }
  }
}

}  // namespace
}  // namespace edgedraft::testing
