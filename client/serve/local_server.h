#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "client/serve/api_service.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/net/http/http_server.h"

namespace edgedraft::client {

// The local API with its HTTP server and conversations.
class LocalServer {
 public:
  struct Options {
    std::string address;  // numeric
    std::uint16_t port = 0;
    // Time for a client to take a part of an answer; phones may sleep.
    Duration stall_timeout = std::chrono::seconds(30);
    // Called on the server's threads.
    std::function<void(const std::string& what)> on_failure;
  };
  // Starts serving.
  //
  // Errors    io: the address cannot be bound
  static Result<std::unique_ptr<LocalServer>> start(Options options, ApiService::Options api);
  ~LocalServer();
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  std::uint16_t port() const { return http_->port(); }

 private:
  LocalServer(Options options, ApiService::Options api);

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::optional<ApiService> service_;
  std::thread thread_;
  std::optional<HttpServer> http_;
};

}  // namespace edgedraft::client
