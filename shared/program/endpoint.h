#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/error.h"

namespace edgedraft {

// An endpoint of the command line: HOST:PORT, with a name or an address as host; IPv6 in brackets.
struct Endpoint {
  std::string host;  // without brackets
  std::uint16_t port = 0;

  bool operator==(const Endpoint&) const = default;
};

// Purpose of the endpoint. Listeners accept port 0, a free port, and read `localhost` as 127.0.0.1.
enum class EndpointUse : std::uint8_t { listen, connect };

// Errors    usage stating the format; the caller names the option
Result<Endpoint> parse_endpoint(std::string_view text, EndpointUse use);

// In the format that parse_endpoint() reads.
std::string to_string(const Endpoint& endpoint);

// True only for loopback addresses, which other machines cannot reach: a name may resolve to
// anything.
bool is_loopback(const std::string& host);

}  // namespace edgedraft
