#include "shared/net/http/http_server.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <exception>
#include <list>
#include <thread>
#include <utility>

#include "shared/base/exceptions.h"
#include "shared/net/coroutines.h"
#include "shared/net/http/http_reply_state.h"
#include "shared/net/listening.h"

namespace edgedraft {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

// Body bytes per read.
constexpr std::size_t kBodyPartBytes = 64u << 10;
// Interval for checking whether the client of a connection with unread bytes is still connected.
constexpr Duration kLeftPause = std::chrono::seconds(1);

using Parser = http::request_parser<http::string_body>;

std::string text_of(boost::core::string_view text) {
  return {text.data(), text.size()};
}

// Copies a request without its body.
HttpRequest head_of(const http::request<http::string_body>& message) {
  const std::string target = text_of(message.target());
  const std::size_t query = target.find('?');
  HttpRequest request{.method = text_of(message.method_string()),
                      .path = target.substr(0, query),
                      .query = query == std::string::npos ? "" : target.substr(query + 1),
                      .headers = {},
                      .body = {}};
  for (const auto& field : message) {
    request.headers.emplace_back(text_of(field.name_string()), text_of(field.value()));
  }
  return request;
}

// True if a proxy might read another request, or another host, from these bytes.
bool is_ambiguous(const Parser& parser) {
  const auto& header = parser.get();
  const bool unknown_coding = header.count(http::field::transfer_encoding) > 0 && !parser.chunked();
  return unknown_coding || header.count(http::field::host) > 1;
}

struct BrokenRequest {
  unsigned status;
  const char* what;
};

BrokenRequest what_is_broken(const boost::system::error_code& error) {
  if (error == http::error::header_limit) return {431, "the header is too large"};
  if (error == http::error::body_limit) return {413, "the body is too large"};
  if (error == asio::error::no_memory) {
    return {503, "too many large requests at once: try again later"};
  }
  return {400, "malformed HTTP request"};
}

// Body bytes of all requests of a server. A request may keep it alive longer than the server.
using BodyBytes = std::atomic<std::size_t>;

// One request's share of the limit.
class BodyShare {
 public:
  explicit BodyShare(std::shared_ptr<BodyBytes> all) : all_(std::move(all)) {}
  ~BodyShare() { *all_ -= bytes_; }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  // False if the total would exceed `most`.
  bool grow_to(std::size_t bytes, std::size_t most) {
    const std::size_t more = bytes - std::exchange(bytes_, bytes);
    return (*all_ += more) <= most;
  }

 private:
  std::shared_ptr<BodyBytes> all_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::optional<std::string_view> HttpRequest::header(std::string_view name) const {
  for (const auto& [field, value] : headers) {
    if (beast::iequals({field.data(), field.size()}, {name.data(), name.size()})) return value;
  }
  return std::nullopt;
}

HttpAnswer HttpServerOptions::plain_error(unsigned status, const std::string& what) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = what + "\n"};
}

// Everything but the constructor and port() runs on the server's thread.
class HttpServer::Impl {
 public:
  Impl(HttpServerOptions options, Handler handler)
      : options_(std::move(options)), handler_(std::move(handler)), acceptor_(io_) {
    listen_on(acceptor_, options_.address, options_.port);
    port_ = acceptor_.local_endpoint().port();
    go_on_accepting();
    thread_ = std::thread([this] { run_all(io_, options_.on_failure); });
  }

  ~Impl() {
    io_.stop();
    thread_.join();
    for (const auto& reply : replies_) reply->cut_off();
  }

  std::uint16_t port() const { return port_; }

 private:
  using Reply = std::shared_ptr<HttpReply::State>;

  struct Connection {
    Connection(tcp::socket socket, std::size_t buffer_bytes_max)
        : stream(std::move(socket)), signal(stream.get_executor()), buffer(buffer_bytes_max) {}

    beast::tcp_stream stream;
    asio::steady_timer signal;  // cancelled when a reply has output
    beast::flat_buffer buffer;
  };

  // A connection that can be dropped without losing an answer.
  struct Droppable {
    Droppable(std::list<Connection*>& all, std::list<Connection*>::iterator before, Connection& one)
        : droppable(all), connection(one) {
      droppable.insert(before, &connection);
    }
    ~Droppable() { std::erase(droppable, &connection); }
    Droppable(const Droppable&) = delete;
    Droppable& operator=(const Droppable&) = delete;

    std::list<Connection*>& droppable;
    Connection& connection;
  };

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
      if (open_ >= options_.connections_max && !drop_one()) {
        continue;  // closes the socket
      }
      ++open_;
      boost::system::error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      asio::co_spawn(io_,
                     serve(std::make_shared<Connection>(
                         std::move(socket), options_.header_bytes_max + kBodyPartBytes)),
                     [this](const std::exception_ptr& failure) {
                       --open_;
                       if (failure) options_.on_failure("a request: " + what_of(failure));
                     });
    }
  }

  // Drops a connection that is leaving, or has owed its request for longest; false if all wait for
  // answers.
  bool drop_one() {
    if (droppable_.empty()) return false;
    droppable_.front()->stream.close();
    droppable_.pop_front();
    return true;
  }

  asio::awaitable<void> serve(std::shared_ptr<Connection> connection) {
    for (bool first = true; co_await serve_one(connection, first); first = false) {
    }
    const Droppable until_it_left(droppable_, droppable_.begin(), *connection);
    co_await say_goodbye(connection->stream);
  }

  // Serves one request; returns whether another may follow. Closes the connection here if the
  // client has left.
  asio::awaitable<bool> serve_one(std::shared_ptr<Connection> kept, bool first) {
    Connection& connection = *kept;
    Parser parser;
    parser.header_limit(options_.header_bytes_max);
    parser.body_limit(boost::none);  // until the page is known
    HttpRequest request;
    std::optional<HttpAnswer> refusal;
    boost::system::error_code error;
    {
      const Droppable until_it_asked(droppable_, droppable_.end(), connection);
      error = co_await read(connection, parser, first, request, refusal);
    }
    const bool silent =
        error == http::error::end_of_stream || error == asio::error::operation_aborted;
    if (silent || error == beast::error::timeout) {
      connection.stream.close();
      co_return false;
    }
    const auto reply = std::make_shared<HttpReply::State>();
    reply->error_page = options_.error_page;
    reply->wake = [this, kept] { asio::post(io_, [kept] { kept->signal.cancel(); }); };
    replies_.push_back(reply);
    if (refusal) {
      reply->put_whole(*std::move(refusal));
    } else if (error) {
      const BrokenRequest broken = what_is_broken(error);
      reply->put_whole(options_.error_page(broken.status, broken.what));
    } else {
      call_handler(std::move(request), reply);
    }
    const bool goes_on =
        !error && !refusal && options_.keeps_alive && parser.is_done() && parser.get().keep_alive();
    const bool told =
        co_await answer(connection, reply,
                        {.version = error ? 11 : parser.get().version(),
                         .head_only = !error && parser.get().method() == http::verb::head,
                         .keeps_alive = goes_on});
    reply->cut_off();
    std::erase(replies_, reply);
    co_return goes_on&& told;
  }

  asio::awaitable<boost::system::error_code> read(Connection& connection, Parser& parser,
                                                  bool first, HttpRequest& request,
                                                  std::optional<HttpAnswer>& refusal) {
    if (!first && connection.buffer.size() == 0) {
      connection.stream.expires_after(options_.idle_timeout);
      const auto [error, count] =
          co_await connection.stream.async_read_some(connection.buffer.prepare(4096), kToken);
      if (error == asio::error::eof) co_return http::error::end_of_stream;
      if (error) co_return error;
      connection.buffer.commit(count);
    }
    connection.stream.expires_after(options_.timeout);
    const auto [header_error, header_count] =
        co_await http::async_read_header(connection.stream, connection.buffer, parser, kToken);
    if (header_error) co_return header_error;
    if (is_ambiguous(parser)) co_return http::error::bad_value;
    request = head_of(parser.get());
    refusal = options_.refuse(request);
    const std::uint32_t bytes_max = refusal ? 0 : options_.body_bytes_max(request);
    // Leaves the body unread if the page takes none, which ends the connection.
    if (bytes_max == 0 || parser.is_done()) co_return boost::system::error_code();
    if (parser.content_length().value_or(0) > bytes_max) co_return http::error::body_limit;
    parser.body_limit(bytes_max);
    if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      const http::response<http::empty_body> go_on(http::status::continue_, 11);
      co_await http::async_write(connection.stream, go_on, kToken);
    }
    connection.stream.expires_after(options_.timeout);
    const auto share = std::make_shared<BodyShare>(body_bytes_);
    while (!parser.is_done()) {
      const auto [error, count] =
          co_await http::async_read_some(connection.stream, connection.buffer, parser, kToken);
      if (error) co_return error;
      if (!share->grow_to(parser.get().body().size(), options_.bodies_bytes_max)) {
        co_return asio::error::no_memory;
      }
    }
    request.body = std::move(parser.get().body());
    request.body_share = share;
    co_return boost::system::error_code();
  }

  void call_handler(HttpRequest request, const Reply& reply) {
    const std::string path = request.path;
    try {
      handler_(std::move(request), HttpReply(reply));
    } catch (...) {
      // Replies that it dropped are answered by now.
      options_.on_failure(path + ": " + what_of(std::current_exception()));
    }
  }

  struct Manner {
    unsigned version;
    bool head_only;
    bool keeps_alive;
  };

  // Returns true if the whole answer is in the socket.
  asio::awaitable<bool> answer(Connection& connection, const Reply& reply, Manner manner) {
    using namespace asio::experimental::awaitable_operators;  // NOLINT: for one ||
    const auto done = co_await (write_all(connection, reply, manner) || watch(connection, reply));
    co_return done.index() == 0 && std::get<0>(done);
  }

  asio::awaitable<bool> write_all(Connection& connection, const Reply& reply, Manner manner) {
    try {
      co_return co_await write_parts(connection, reply, manner);
    } catch (...) {
      options_.on_failure("an answer: " + what_of(std::current_exception()));
      co_return false;
    }
  }

  asio::awaitable<bool> write_parts(Connection& connection, const Reply& reply, Manner manner) {
    bool begun = false;
    bool chunked = false;
    for (;;) {
      bool filler = false;
      std::optional<HttpReply::State::Part> part = reply->take();
      if (!part) {
        if (reply->is_cut_off()) co_return false;
        if (!co_await something_to_say(connection, *reply, begun)) {
          filler = true;
          part.emplace(HttpReply::State::Part{.head = std::nullopt, .body = reply->filler});
        } else {
          continue;
        }
      }
      boost::system::error_code error;
      connection.stream.expires_after(options_.timeout);
      if (part->head) {
        begun = true;
        chunked = !part->whole && manner.version >= 11;
        error = co_await write_head(connection, *part, manner, chunked);
      }
      const bool body = !part->body.empty() && !manner.head_only && !(part->whole && part->head);
      if (!error && body) error = co_await write_body(connection, part->body, chunked);
      if (!filler) reply->taken(part->body.size());
      if (!error && part->last && chunked && !manner.head_only) {
        std::tie(error, std::ignore) =
            co_await asio::async_write(connection.stream, http::make_chunk_last(), kToken);
      }
      reply->stalled = error == beast::error::timeout;
      if (error) co_return false;
      // HTTP/1.0 has no chunked encoding, so closing ends the stream.
      if (part->last) co_return part->whole || chunked;
    }
  }

  // Waits for output; false after too long a silence.
  asio::awaitable<bool> something_to_say(Connection& connection, HttpReply::State& reply,
                                         bool begun) {
    const bool endless = !begun || reply.quiet_max == Duration::max();
    if (endless) {
      connection.signal.expires_at(Instant::max());
    } else {
      connection.signal.expires_after(reply.quiet_max);
    }
    const auto [error] = co_await connection.signal.async_wait(kToken);
    co_return error == asio::error::operation_aborted;
  }

  asio::awaitable<boost::system::error_code> write_head(Connection& connection,
                                                        HttpReply::State::Part& part, Manner manner,
                                                        bool chunked) {
    http::response<http::string_body> response(static_cast<http::status>(part.head->status),
                                               manner.version);
    response.set(http::field::content_type, part.head->content_type);
    response.set(http::field::cache_control, "no-store");
    for (const auto& [name, value] : part.head->headers) response.set(name, value);
    response.keep_alive(manner.keeps_alive && (part.whole || chunked));
    if (!manner.keeps_alive) response.set(http::field::connection, "close");
    boost::system::error_code error;
    if (part.whole) {
      const std::size_t bytes = part.body.size();
      if (!manner.head_only) response.body() = part.body;
      response.content_length(bytes);
      http::response_serializer<http::string_body> serializer(response);
      if (manner.head_only) {
        std::tie(error, std::ignore) =
            co_await http::async_write_header(connection.stream, serializer, kToken);
      } else {
        std::tie(error, std::ignore) =
            co_await http::async_write(connection.stream, serializer, kToken);
      }
      co_return error;
    }
    response.chunked(chunked);
    http::response_serializer<http::string_body> serializer(response);
    std::tie(error, std::ignore) =
        co_await http::async_write_header(connection.stream, serializer, kToken);
    co_return error;
  }

  asio::awaitable<boost::system::error_code> write_body(Connection& connection,
                                                        const std::string& body, bool chunked) {
    boost::system::error_code error;
    const auto bytes = asio::buffer(body);
    if (chunked) {
      std::tie(error, std::ignore) =
          co_await asio::async_write(connection.stream, http::make_chunk(bytes), kToken);
    } else {
      std::tie(error, std::ignore) = co_await asio::async_write(connection.stream, bytes, kToken);
    }
    co_return error;
  }

  // Detects that the client left while its answer is made. Never returns by itself.
  asio::awaitable<void> watch(Connection& connection, const Reply& reply) {
    tcp::socket& socket = connection.stream.socket();
    asio::steady_timer pause(io_);
    const auto [error] = co_await socket.async_wait(tcp::socket::wait_read, kToken);
    // Early bytes, such as the next request, hide anything that arrives after them.
    while (error != asio::error::operation_aborted) {
      pollfd peer{.fd = socket.native_handle(), .events = POLLRDHUP, .revents = 0};
      if (::poll(&peer, 1, 0) > 0) {
        reply->cut_off();
        connection.signal.cancel();
        break;
      }
      pause.expires_after(kLeftPause);
      const auto [over] = co_await pause.async_wait(kToken);
      if (over) break;
    }
    pause.expires_at(Instant::max());
    co_await pause.async_wait(kToken);
  }

  // Briefly reads and discards further input.
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

  HttpServerOptions options_;
  Handler handler_;
  std::shared_ptr<BodyBytes> body_bytes_ = std::make_shared<BodyBytes>(0);
  std::uint32_t open_ = 0;
  std::list<Connection*>
      droppable_;               // leaving connections, then those that owe a request, longest first
  asio::io_context io_{1};      // its destructor ends connections
  std::vector<Reply> replies_;  // in progress
  tcp::acceptor acceptor_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

HttpServer::HttpServer(HttpServerOptions options, Handler handler)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler))) {}
HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const {
  return impl_->port();
}

}  // namespace edgedraft
