#include "server/metrics/http_endpoint.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <exception>
#include <thread>
#include <utility>

#include "shared/base/exceptions.h"

namespace edgedraft {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);
// When accepting fails for want of file descriptors, trying again at once would only spin.
constexpr Duration kAcceptPause = std::chrono::milliseconds(50);
// For the last words to arrive: closing at once would make the kernel drop what is not read yet.
constexpr Duration kFarewellTimeout = std::chrono::seconds(1);

using Request = http::request_parser<http::empty_body>;

HttpAnswer plain(unsigned status, std::string text) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(text)};
}

HttpAnswer answer_to_broken(const boost::system::error_code& error) {
  if (error == http::error::header_limit) return plain(431, "the header is too large\n");
  return plain(400, "this is no HTTP request\n");
}

HttpAnswer answer_to(const Request& request, const HttpEndpoint::Pages& pages) {
  const auto& header = request.get();
  if (header.method() != http::verb::get && header.method() != http::verb::head) {
    return plain(405, "GET and HEAD are all there is\n");
  }
  const std::string_view target(header.target().data(), header.target().size());
  auto page = pages(target.substr(0, target.find('?')));
  return page ? *std::move(page) : plain(404, "there are /metrics, /health and /ready\n");
}

http::response<http::string_body> response_of(HttpAnswer answer) {
  http::response<http::string_body> response(static_cast<http::status>(answer.status), 11);
  response.set(http::field::content_type, answer.content_type);
  response.set(http::field::cache_control, "no-store");
  response.set(http::field::connection, "close");
  if (answer.status == 405) response.set(http::field::allow, "GET, HEAD");
  response.body() = std::move(answer.body);
  response.prepare_payload();
  return response;
}

}  // namespace

// Everything but the constructor and port() runs on the one thread.
class HttpEndpoint::Impl {
 public:
  Impl(HttpEndpointOptions options, Pages pages)
      : options_(std::move(options)), pages_(std::move(pages)), acceptor_(io_) {
    const tcp::endpoint endpoint(asio::ip::make_address(options_.address), options_.port);
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind(endpoint);
    acceptor_.listen();
    port_ = acceptor_.local_endpoint().port();
    go_on_accepting();
    thread_ = std::thread([this] { io_.run(); });
  }

  ~Impl() {
    io_.stop();
    thread_.join();
  }

  std::uint16_t port() const { return port_; }

 private:
  void go_on_accepting() {
    asio::co_spawn(io_, accept(), [this](const std::exception_ptr& failure) {
      if (!failure) return;
      options_.on_failure("accepting: " + what_of(failure));
      go_on_accepting();
    });
  }

  asio::awaitable<void> accept() {
    for (;;) {
      auto [error, socket] = co_await acceptor_.async_accept(kToken);
      if (error) {
        asio::steady_timer pause(io_, kAcceptPause);
        co_await pause.async_wait(kToken);
        continue;
      }
      if (open_ >= options_.connections_max) continue;  // closes the socket
      ++open_;
      asio::co_spawn(io_, serve(beast::tcp_stream(std::move(socket))),
                     [this](const std::exception_ptr& failure) {
                       --open_;
                       if (failure) options_.on_failure("a request: " + what_of(failure));
                     });
    }
  }

  asio::awaitable<void> serve(beast::tcp_stream stream) {
    beast::flat_buffer buffer(options_.header_bytes_max + 1024);
    Request request;
    request.header_limit(options_.header_bytes_max);
    stream.expires_after(options_.timeout);
    const auto [read_error, read_count] =
        co_await http::async_read_header(stream, buffer, request, kToken);
    const bool silent = read_error == http::error::end_of_stream;
    if (silent || read_error == beast::error::timeout) co_return;

    const auto response =
        response_of(read_error ? answer_to_broken(read_error) : page_for(request));
    http::response_serializer<http::string_body> serializer(response);
    stream.expires_after(options_.timeout);
    if (!read_error && request.get().method() == http::verb::head) {
      co_await http::async_write_header(stream, serializer, kToken);
    } else {
      co_await http::async_write(stream, serializer, kToken);
    }
    co_await say_goodbye(stream);
  }

  HttpAnswer page_for(const Request& request) {
    try {
      return answer_to(request, pages_);
    } catch (...) {
      const std::string path(request.get().target());
      options_.on_failure(path + ": " + what_of(std::current_exception()));
      return plain(500, "the server could not make this page\n");
    }
  }

  // Reads away, for a moment, what a peer goes on to send.
  asio::awaitable<void> say_goodbye(beast::tcp_stream& stream) {
    boost::system::error_code ignored;
    stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream.expires_after(kFarewellTimeout);
    std::array<char, 4096> rest;
    for (;;) {
      const auto [error, count] = co_await stream.async_read_some(asio::buffer(rest), kToken);
      if (error) co_return;
    }
  }

  HttpEndpointOptions options_;
  Pages pages_;
  std::uint32_t open_ = 0;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

HttpEndpoint::HttpEndpoint(HttpEndpointOptions options, Pages pages)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(pages))) {}
HttpEndpoint::~HttpEndpoint() = default;

std::uint16_t HttpEndpoint::port() const {
  return impl_->port();
}

}  // namespace edgedraft
