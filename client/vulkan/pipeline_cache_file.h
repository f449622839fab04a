#pragma once

#include <filesystem>
#include <string>

#include "client/vulkan/functions.h"
#include "shared/base/bytes.h"

namespace edgedraft::client::vulkan {

// File of a driver's compiled pipelines: a digest, then the driver's data. Drivers trust this data,
// so the digest is checked first.

// Returns the file name, one per device and driver version.
std::string pipeline_cache_name(const VkPhysicalDeviceProperties& device);
// Returns the file's data; empty if it is missing, damaged, too large or of another device.
Bytes read_pipeline_cache(const std::filesystem::path& file,
                          const VkPhysicalDeviceProperties& device);
// Replaces the file atomically; does nothing if it cannot be written.
void write_pipeline_cache(const std::filesystem::path& file, ByteView data);

}  // namespace edgedraft::client::vulkan
