#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/clock.h"

namespace edgedraft {

struct HttpAnswer {
  unsigned status = 200;
  std::string content_type;
  std::string body;
};

struct HttpEndpointOptions {
  std::string address;     // numeric, e.g. "127.0.0.1" or "::1"
  std::uint16_t port = 0;  // 0 takes a free one
  std::uint32_t header_bytes_max = 8u << 10;
  std::uint32_t connections_max = 16;  // further ones are closed at once
  // For a request to come whole, and again for its answer to be taken.
  Duration timeout = std::chrono::seconds(5);
  // Told what went wrong on this side; the endpoint goes on. Called on its thread.
  std::function<void(const std::string& what)> on_failure = [](const std::string&) {};
};

// Serves a few small pages to monitors by HTTP/1.1, without TLS: GET and HEAD, one request a
// connection. It has a thread of its own, so that it answers while the server is being loaded, is
// drowning or is going away.
class HttpEndpoint {
 public:
  // The page at a path, without its query; nothing if there is none. Called on the endpoint's
  // thread. If it throws, the monitor is answered 500.
  using Pages = std::function<std::optional<HttpAnswer>(std::string_view path)>;

  // Listens and answers from here on.
  //
  // Errors    throws boost::system::system_error where the address cannot be bound
  HttpEndpoint(HttpEndpointOptions options, Pages pages);
  // Cuts off open connections.
  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  std::uint16_t port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace edgedraft
