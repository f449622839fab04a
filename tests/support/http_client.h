#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace edgedraft::testing {

struct HttpResult {
  unsigned status = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;  // without chunk framing

  // Empty if there is no header of that name.
  std::string header(const std::string& name) const;
};

struct HttpQuestion {
  std::string method = "GET";
  std::string path = "/";
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string body{};
};

// Sends one request to a server on this machine, on its own connection. Throws
// boost::system::system_error if the connection breaks.
HttpResult ask(std::uint16_t port, const HttpQuestion& question);

// The JSON texts of a stream of server-sent events, including "[DONE]".
std::vector<std::string> event_data(const std::string& stream);

}  // namespace edgedraft::testing
