#pragma once

#include <string>

namespace edgedraft {

// HOST:PORT as people write it: an IPv6 address stands in brackets.
inline std::string host_port(const std::string& host, const std::string& port) {
  const bool bare = host.find(':') == std::string::npos;
  return (bare ? host : '[' + host + ']') + ':' + port;
}

}  // namespace edgedraft
