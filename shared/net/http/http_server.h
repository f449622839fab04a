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
  std::uint16_t port = 0;  // 0 takes a free one
  std::uint32_t header_bytes_max = 8u << 10;
  // Of the bodies of all requests that are not answered or let go of yet; beyond it one is answered
  // 503.
  std::size_t bodies_bytes_max = 48u << 20;
  // Further ones take the place of one that has had its last answer, or of the one that has owed
  // its request for longest, or are closed at once where all wait for answers.
  std::uint32_t connections_max = 16;
  bool keeps_alive = false;  // a connection may bring several requests
  // For a request's header to come whole, for its body, and for each part of its answer to be
  // taken.
  Duration timeout = std::chrono::seconds(5);
  Duration idle_timeout = std::chrono::seconds(60);  // until the next request begins
  // Why a request, of which the header alone is there, is not wanted: its body is not read then,
  // and the connection ends. Called on the server's thread.
  std::function<std::optional<HttpAnswer>(const HttpRequest& head)> refuse =
      [](const HttpRequest&) { return std::nullopt; };
  // How large a body a request's page takes. 0: its body is not read, and ends the connection.
  // Called after refuse(), likewise.
  std::function<std::uint32_t(const HttpRequest& head)> body_bytes_max = [](const HttpRequest&) {
    return 0;
  };
  // What is said where a request never comes to the handler, or the handler fails.
  std::function<HttpAnswer(unsigned status, const std::string& what)> error_page = plain_error;
  // Told what went wrong on this side; the server goes on. Called on its thread.
  std::function<void(const std::string& what)> on_failure = [](const std::string&) {};

  static HttpAnswer plain_error(unsigned status, const std::string& what);
};

// Serves HTTP/1.1, without TLS, on one thread of its own. A faulty client costs its connection
// alone.
class HttpServer {
 public:
  // Called on the server's thread, which it must not hold up: what takes long answers from
  // elsewhere. If it throws, the client is answered 500.
  using Handler = std::function<void(HttpRequest request, HttpReply reply)>;

  // Listens and answers from here on.
  //
  // Errors    throws ListenError where the address cannot be bound
  HttpServer(HttpServerOptions options, Handler handler);
  // Cuts off open connections. Replies may outlive it.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace edgedraft
