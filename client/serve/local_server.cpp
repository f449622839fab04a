#include "client/serve/local_server.h"

#include <chrono>
#include <utility>

#include "client/serve/json/api_error.h"
#include "shared/net/listening.h"

namespace edgedraft::client {
namespace {

constexpr std::uint32_t kConnectionsMax = 512;

}  // namespace

LocalServer::LocalServer(Options options, ApiService::Options api) : work_(io_.get_executor()) {
  const HttpServerOptions http{
      .address = options.address,
      .port = options.port,
      .header_bytes_max = 16u << 10,
      .connections_max = kConnectionsMax,
      .keeps_alive = true,
      .timeout = options.stall_timeout,
      .refuse = [this](const HttpRequest& head) { return service_->refuse(head); },
      .body_bytes_max = ApiService::body_bytes_max,
      .error_page =
          [](unsigned status, const std::string& what) {
            return answer_of(ApiError{.status = status, .message = what});
          },
      .on_failure = options.on_failure};
  service_.emplace(io_, std::move(api));
  http_.emplace(http, [this](HttpRequest request, HttpReply reply) {
    service_->handle(std::move(request), std::move(reply));
  });
  thread_ =
      std::thread([this, on_failure = std::move(options.on_failure)] { run_all(io_, on_failure); });
}

LocalServer::~LocalServer() {
  // Stop requests first, then answers.
  http_.reset();
  io_.stop();
  if (thread_.joinable()) thread_.join();
  service_.reset();
}

Result<std::unique_ptr<LocalServer>> LocalServer::start(Options options, ApiService::Options api) {
  try {
    return std::unique_ptr<LocalServer>(new LocalServer(std::move(options), std::move(api)));
  } catch (const ListenError& e) {
    return Error{Errc::io, e.what()};
  }
}

}  // namespace edgedraft::client
