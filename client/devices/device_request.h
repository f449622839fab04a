#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shared/base/error.h"

namespace edgedraft::client {

// Value of --device.
struct DeviceRequest {
  enum class Kind : std::uint8_t {
    automatic,  // the fastest
    cpu,
    vulkan,
  };
  Kind kind = Kind::automatic;
  std::optional<std::uint32_t> index = {};  // N of vulkan:N; empty: the best
};

// Errors    usage naming the valid values
Result<DeviceRequest> parse_device_request(const std::string& text);

}  // namespace edgedraft::client
