#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shared/base/error.h"

namespace edgedraft {

// Where to draft, as --device says it.
struct DeviceRequest {
  enum class Kind : std::uint8_t {
    automatic,  // the fastest
    cpu,
    vulkan,
  };
  Kind kind = Kind::automatic;
  std::optional<std::uint32_t> index = {};  // N of vulkan:N; without one the best
};

// Errors    usage: what may be given
Result<DeviceRequest> parse_device_request(const std::string& text);

}  // namespace edgedraft
