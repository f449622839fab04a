#pragma once

#include <memory>
#include <string>

#include "client/vulkan/measured_backend.h"
#include "shared/base/error.h"

namespace edgedraft::bench {

// The Vulkan device that `--device vulkan` (the first that can be used) or `vulkan:N` names, with
// `--features` (kFeaturesHelp). Drafters have their keys and values there in `kv_type`.
//
// Errors    usage, unsupported
Result<std::unique_ptr<MeasuredBackend>> open_vulkan_device(const std::string& device,
                                                            const std::string& features,
                                                            DType kv_type = DType::f32);
inline constexpr const char* kFeaturesHelp =
    "Vulkan features to use: auto (those that help), none, all, or some of "
    "narrow_storage,float16,integer_dot,subgroups";

// `cpu`, for which neither features nor `kv_type` matter, or one of the above.
Result<std::unique_ptr<Backend>> open_drafter_device(const std::string& device,
                                                     const std::string& features,
                                                     std::uint32_t threads,
                                                     DType kv_type = DType::f32);

}  // namespace edgedraft::bench
