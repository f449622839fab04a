#pragma once

#include <memory>
#include <string>

#include "client/vulkan/measured_backend.h"
#include "shared/base/error.h"

namespace edgedraft::bench {

// The Vulkan device that `--device vulkan` (the first that can be used) or `vulkan:N` names.
//
// Errors    usage, unsupported
Result<std::unique_ptr<MeasuredBackend>> open_vulkan_device(const std::string& device);

// `cpu` or one of the above.
Result<std::unique_ptr<Backend>> open_device(const std::string& device, std::uint32_t threads);

}  // namespace edgedraft::bench
