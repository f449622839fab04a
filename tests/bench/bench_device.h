#pragma once

#include <memory>
#include <string>

#include "client/vulkan/vulkan_backend.h"
#include "shared/base/error.h"

namespace edgedraft::bench {
using namespace client;

// Opens the Vulkan device named by `--device vulkan` (the first usable one) or `vulkan:N`, with
// `--features` (kFeaturesHelp). Drafters store keys and values there as `kv_type`.
//
// Errors    usage, unsupported
Result<std::unique_ptr<MeasuredBackend>> open_vulkan_device(const std::string& device,
                                                            const std::string& features,
                                                            DType kv_type = DType::f32);
inline constexpr const char* kFeaturesHelp =
    "Vulkan features to use: auto (those that help), none, all, or a list of "
    "narrow_storage,float16,integer_dot,subgroups";

// `cpu`, which ignores features and `kv_type`, or a Vulkan device as above.
Result<std::unique_ptr<Backend>> open_drafter_device(const std::string& device,
                                                     const std::string& features,
                                                     std::uint32_t threads,
                                                     DType kv_type = DType::f32);

}  // namespace edgedraft::bench
