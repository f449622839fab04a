#pragma once

#include <memory>
#include <string>

#include "client/vulkan/measured_backend.h"
#include "shared/base/error.h"

namespace edgedraft::bench {

// The Vulkan device that `--device vulkan` (the first that can be used) or `vulkan:N` names, with
// `--features` (kFeaturesHelp).
//
// Errors    usage, unsupported
Result<std::unique_ptr<MeasuredBackend>> open_vulkan_device(const std::string& device,
                                                            const std::string& features);
inline constexpr const char* kFeaturesHelp =
    "of a Vulkan device, to be used: auto (those that pay), none, all, or some of "
    "narrow_storage,float16,integer_dot,subgroups";

// `cpu`, for which features do not matter, or one of the above.
Result<std::unique_ptr<Backend>> open_device(const std::string& device, const std::string& features,
                                             std::uint32_t threads);

}  // namespace edgedraft::bench
