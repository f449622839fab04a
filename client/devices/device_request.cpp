#include "client/devices/device_request.h"

#include <charconv>
#include <string_view>

namespace edgedraft::client {

Result<DeviceRequest> parse_device_request(const std::string& text) {
  using Kind = DeviceRequest::Kind;
  if (text == "auto") return DeviceRequest{.kind = Kind::automatic};
  if (text == "cpu") return DeviceRequest{.kind = Kind::cpu};
  if (text == "vulkan") return DeviceRequest{.kind = Kind::vulkan};
  constexpr std::string_view kPrefix = "vulkan:";
  if (text.starts_with(kPrefix)) {
    std::uint32_t index = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + kPrefix.size(), end, index);
    if (parsed.ec == std::errc() && parsed.ptr == end) {
      return DeviceRequest{.kind = Kind::vulkan, .index = index};
    }
  }
  return Error{
      Errc::usage,
      "'" + text +
          "': expected auto, cpu, vulkan or vulkan:N; `edgedraft devices` lists the devices"};
}

}  // namespace edgedraft::client
