#pragma once

#include <filesystem>
#include <string>

#include "client/vulkan/functions.h"
#include "shared/base/bytes.h"

namespace edgedraft::vulkan {

// The file that holds a driver's compiled pipelines: a digest of the data, then the data as the
// driver gave it. Drivers trust what they are handed, so it is checked first.

// One file a device and driver version.
std::string pipeline_cache_name(const VkPhysicalDeviceProperties& device);
// What the file holds; nothing if it is missing, damaged, too large or of another device.
Bytes read_pipeline_cache(const std::filesystem::path& file,
                          const VkPhysicalDeviceProperties& device);
// Replaces the file as a whole, or leaves it if it cannot be written.
void write_pipeline_cache(const std::filesystem::path& file, ByteView data);

}  // namespace edgedraft::vulkan
