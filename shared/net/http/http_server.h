#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "shared/base/clock.h"
#include "shared/net/http/http_message.h"
#include "shared/net/http/http_reply.h"

namespace edgedraft {

struct HttpServerOptions {
  std::string address;     // numeric, e.g. "127.0.0.1" or "::1"
  std::uint16_t port = 0;  // 0 picks a free port
  std::uint32_t header_bytes_max = 8u << 10;
  // Limit for the bodies of all unanswered requests together; beyond it a request gets 503.
  std::size_t bodies_bytes_max = 48u << 20;
  // A further connection replaces one that has received its last answer, or the one that has owed a
  // request for longest. If all wait for answers, it is closed at once.
  std::uint32_t connections_max = 16;
  bool keeps_alive = false;  // several requests per connection
  // Deadline for a request's whole header, for its body, and for each part of its answer to be
  // taken.
  Duration timeout = std::chrono::seconds(5);
  Duration idle_timeout = std::chrono::seconds(60);  // until the next request begins
  // Refuses a request by its header alone: the body is not read, and the connection ends. Called on
  // the server's thread.
  std::function<std::optional<HttpAnswer>(const HttpRequest& head)> refuse =
      [](const HttpRequest&) { return std::nullopt; };
  // Body limit of a request's page. 0: the body is not read, which ends the connection. Called
  // after refuse(), on the same thread.
  std::function<std::uint32_t(const HttpRequest& head)> body_bytes_max = [](const HttpRequest&) {
    return 0;
  };
  // Page for a request that never reaches the handler, or whose handler fails.
  std::function<HttpAnswer(unsigned status, const std::string& what)> error_page = plain_error;
  // Called on the server's thread with a failure of this side; the server continues.
  std::function<void(const std::string& what)> on_failure = [](const std::string&) {};

  static HttpAnswer plain_error(unsigned status, const std::string& what);
};

// Serves HTTP/1.1 without TLS on one thread of its own. A faulty client only loses its own
// connection.
class HttpServer {
 public:
  // Called on the server's thread. Must not block: long work answers from another thread. If it
  // throws, the client gets status 500.
  using Handler = std::function<void(HttpRequest request, HttpReply reply)>;

  // Starts listening and answering.
  //
  // Errors    throws ListenError if the address cannot be bound
  HttpServer(HttpServerOptions options, Handler handler);
  // Cuts off open connections. Replies may outlive the server.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace edgedraft
