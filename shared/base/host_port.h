#pragma once

#include <string>

namespace edgedraft {

// HOST:PORT, with brackets around an IPv6 address.
inline std::string host_port(const std::string& host, const std::string& port) {
  const bool bare = host.find(':') == std::string::npos;
  return (bare ? host : '[' + host + ']') + ':' + port;
}

}  // namespace edgedraft
