#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/error.h"

namespace edgedraft {

// One end of a connection as it is written on a command line: HOST:PORT, with the host a name or an
// address, an IPv6 one in brackets.
struct Endpoint {
  std::string host;  // without brackets
  std::uint16_t port = 0;

  bool operator==(const Endpoint&) const = default;
};

// What the endpoint is for. A listener may have port 0, a free one, and `localhost` is 127.0.0.1 to
// it.
enum class EndpointUse : std::uint8_t { listen, connect };

// Errors    usage saying what an endpoint looks like; the caller names the option
Result<Endpoint> parse_endpoint(std::string_view text, EndpointUse use);

// As parse_endpoint() reads it.
std::string to_string(const Endpoint& endpoint);

// Whether only this machine can reach that host. That holds for loopback addresses alone: a name
// may resolve to anything, whatever it looks like.
bool is_loopback(const std::string& host);

}  // namespace edgedraft
