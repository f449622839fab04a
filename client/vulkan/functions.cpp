#include "client/vulkan/functions.h"

#include <dlfcn.h>

#include <string_view>

#include "shared/runtime/backend.h"

namespace edgedraft::client::vulkan {
namespace {

constexpr const char* kLoaders[] = {"libvulkan.so.1", "libvulkan.so"};

// Never closed, because layers and drivers keep threads and handlers in it.
void* open_loader() {
  static void* const library = [] {
    void* found = nullptr;
    for (const char* name : kLoaders) {
      if (found == nullptr) found = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    return found;
  }();
  return library;
}

template <class Function>
void find(Function& function, const Functions& functions, VkInstance instance, const char* name) {
  function = reinterpret_cast<Function>(functions.GetInstanceProcAddr(instance, name));
}

Error missing(const char* name) {
  return {Errc::unsupported, std::string("the Vulkan loader lacks ") + name +
                                 ": update libvulkan1, or use --device cpu"};
}

constexpr bool destroys(std::string_view name) {
  return name.starts_with("Destroy") || name.starts_with("Free");
}

template <class R, class... Args>
void make_inert(R(VKAPI_PTR*& function)(Args...)) {
  function = [](Args...) { return R(); };
}

}  // namespace

Result<Functions> load_global_functions(const Hooks& hooks) {
  Functions functions;
  void* library = open_loader();
  if (library == nullptr) {
    return Error{Errc::unsupported,
                 "no Vulkan loader found (libvulkan.so.1): install libvulkan1 and a driver, for "
                 "example mesa-vulkan-drivers, or use --device cpu"};
  }
  functions.GetInstanceProcAddr =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  if (functions.GetInstanceProcAddr == nullptr) return missing("vkGetInstanceProcAddr");
#define EDGEDRAFT_VULKAN_FIND(name)                            \
  find(functions.name, functions, VK_NULL_HANDLE, "vk" #name); \
  if (functions.name == nullptr) return missing("vk" #name);
  EDGEDRAFT_VULKAN_GLOBAL_FUNCTIONS(EDGEDRAFT_VULKAN_FIND)
#undef EDGEDRAFT_VULKAN_FIND
  if (hooks.adjust) hooks.adjust(functions);
  return functions;
}

Result<void> load_instance_functions(Functions& functions, VkInstance instance,
                                     const Hooks& hooks) {
#define EDGEDRAFT_VULKAN_FIND(name)                      \
  find(functions.name, functions, instance, "vk" #name); \
  if (functions.name == nullptr) return missing("vk" #name);
  EDGEDRAFT_VULKAN_INSTANCE_FUNCTIONS(EDGEDRAFT_VULKAN_FIND)
#undef EDGEDRAFT_VULKAN_FIND
#define EDGEDRAFT_VULKAN_FIND(name) find(functions.name, functions, instance, "vk" #name);
  EDGEDRAFT_VULKAN_DEBUG_FUNCTIONS(EDGEDRAFT_VULKAN_FIND)
#undef EDGEDRAFT_VULKAN_FIND
  if (hooks.adjust) hooks.adjust(functions);
  return {};
}

void abandon(Functions& functions) {
#define EDGEDRAFT_VULKAN_ABANDON(name) \
  if (destroys(#name)) make_inert(functions.name);
  EDGEDRAFT_VULKAN_INSTANCE_FUNCTIONS(EDGEDRAFT_VULKAN_ABANDON)
#undef EDGEDRAFT_VULKAN_ABANDON
}

std::string result_name(VkResult result) {
#define EDGEDRAFT_VULKAN_RESULT(name) \
  case name:                          \
    return #name;
  switch (result) {
    EDGEDRAFT_VULKAN_RESULT(VK_SUCCESS)
    EDGEDRAFT_VULKAN_RESULT(VK_TIMEOUT)
    EDGEDRAFT_VULKAN_RESULT(VK_ERROR_OUT_OF_HOST_MEMORY)
    EDGEDRAFT_VULKAN_RESULT(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    EDGEDRAFT_VULKAN_RESULT(VK_ERROR_INITIALIZATION_FAILED)
    EDGEDRAFT_VULKAN_RESULT(VK_ERROR_DEVICE_LOST)
    EDGEDRAFT_VULKAN_RESULT(VK_ERROR_MEMORY_MAP_FAILED)
    EDGEDRAFT_VULKAN_RESULT(VK_ERROR_LAYER_NOT_PRESENT)
    EDGEDRAFT_VULKAN_RESULT(VK_ERROR_EXTENSION_NOT_PRESENT)
    EDGEDRAFT_VULKAN_RESULT(VK_ERROR_FEATURE_NOT_PRESENT)
    EDGEDRAFT_VULKAN_RESULT(VK_ERROR_INCOMPATIBLE_DRIVER)
    EDGEDRAFT_VULKAN_RESULT(VK_ERROR_TOO_MANY_OBJECTS)
    EDGEDRAFT_VULKAN_RESULT(VK_ERROR_OUT_OF_POOL_MEMORY)
    default:
      return "VkResult " + std::to_string(static_cast<int>(result));
  }
#undef EDGEDRAFT_VULKAN_RESULT
}

void check(VkResult result, const char* tried) {
  if (result == VK_SUCCESS) return;
  std::string message =
      std::string("the Vulkan device could not ") + tried + " (" + result_name(result) + ")";
  if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY) {
    message += ": out of memory";
  }
  throw DeviceError(message);
}

}  // namespace edgedraft::client::vulkan
