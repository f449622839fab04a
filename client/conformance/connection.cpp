#include "client/conformance/connection.h"

#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <exception>
#include <span>
#include <utility>
#include <variant>

#include "client/conformance/check.h"
#include "shared/base/check.h"
#include "shared/base/host_port.h"
#include "shared/net/dialer.h"
#include "shared/protocol/outgoing.h"

namespace edgedraft::conformance {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr Duration kConnectTimeout = 10s;
constexpr Duration kWriteTimeout = 30s;

void spoil(TlsContext& context, Handshake handshake) {
  static constexpr std::array<unsigned char, 9> kOtherAlpn = {8,   'h', 't', 't', 'p',
                                                              '/', '1', '.', '1'};
  SSL_CTX* const native = context.native_handle();
  if (handshake == Handshake::other_alpn) {
    EDGEDRAFT_CHECK(SSL_CTX_set_alpn_protos(native, kOtherAlpn.data(), kOtherAlpn.size()) == 0);
  }
  if (handshake == Handshake::tls_1_2) {
    EDGEDRAFT_CHECK(SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION) == 1);
    EDGEDRAFT_CHECK(SSL_CTX_set_max_proto_version(native, TLS1_2_VERSION) == 1);
  }
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::open(const ServerAddress& server,
                                                     Handshake handshake) {
  const auto context = make_client_context(server.tls);
  if (!context) return context.error();
  spoil(**context, handshake);
  std::unique_ptr<Connection> connection(new Connection(**context));
  std::optional<Result<void>> done;
  std::exception_ptr thrown;
  asio::co_spawn(connection->io_, connection->connect(server, handshake),
                 [&](std::exception_ptr failure, Result<void> result) {
                   thrown = failure;
                   done = std::move(result);
                 });
  connection->io_.run_for(kConnectTimeout);
  if (thrown) std::rethrow_exception(thrown);
  if (!done) {
    // The coroutine refers to this frame: it ends before the frame does.
    connection->cut();
    connection->io_.stop();
    connection.reset();
    return Error{Errc::timed_out,
                 "could not connect to " + host_port(server.host, server.port) + " in time"};
  }
  if (!*done) return done->error();
  connection->read();
  return connection;
}

Connection::~Connection() {
  cut();
}

asio::awaitable<Result<void>> Connection::connect(const ServerAddress& server,
                                                  Handshake handshake) {
  const std::string peer = host_port(server.host, server.port);
  Dialer dialer(resolve_by_system, server.host, server.port);
  const boost::system::error_code error = co_await dialer.connect(stream_.next_layer());
  if (error == asio::error::host_not_found) {
    co_return Error{Errc::unknown_host, "the host '" + server.host + "' was not found"};
  }
  if (error) {
    co_return Error{Errc::link_down, "could not connect to " + peer + ": " + error.message()};
  }
  NativeTls* const tls = stream_.native_handle();
  const Result<void> named = set_server_name(tls, server.tls, server.host);
  if (!named) co_return named.error();
  const Result<void> shaken =
      co_await shake_hands(stream_, asio::ssl::stream_base::client, kConnectTimeout, peer);
  if (!shaken) co_return shaken.error();
  // check_server() would hide that the server accepted such a handshake.
  if (handshake != Handshake::valid) co_return boost::system::in_place_value;
  co_return check_server(tls, server.tls);
}

void Connection::read() {
  stream_.async_read_some(asio::buffer(buffer_),
                          [this](const boost::system::error_code& error, std::size_t count) {
                            if (error) {
                              has_ended_ = true;
                              return;
                            }
                            reader_.append(std::span(buffer_).first(count));
                            read();
                          });
}

void Connection::send(ByteView bytes) {
  if (has_ended_) return;
  bool is_done = false;
  asio::async_write(stream_, asio::buffer(bytes.data(), bytes.size()),
                    [&](const boost::system::error_code&, std::size_t) { is_done = true; });
  const Instant deadline = Clock::now() + kWriteTimeout;
  while (!is_done && Clock::now() < deadline) {
    io_.restart();
    io_.run_one_until(deadline);
  }
  if (is_done) return;
  cut();
  while (!is_done) {
    io_.restart();
    io_.run_one();
  }
}

std::optional<wire::Message> Connection::next(Duration patience) {
  const Instant deadline = Clock::now() + patience;
  for (;;) {
    Result<std::optional<Frame>> frame = reader_.next();
    require(frame.has_value(), [&] { return "invalid frame: " + frame.error().message; });
    if (!*frame) {
      if (has_ended_ || Clock::now() >= deadline) return std::nullopt;
      io_.restart();
      io_.run_one_until(deadline);
      continue;
    }
    if ((*frame)->kind == static_cast<std::uint16_t>(wire::Kind::pad)) continue;
    Result<wire::Message> message = wire::decode((*frame)->kind, (*frame)->payload);
    require(message.has_value(), [&] { return "invalid message: " + message.error().message; });
    const auto* const ping = std::get_if<wire::Ping>(&*message);
    if (ping == nullptr) return *std::move(message);
    send(wire::encode(wire::Pong{ping->nonce}));
  }
}

void Connection::cut() {
  boost::system::error_code ignored;
  stream_.next_layer().close(ignored);
  has_ended_ = true;
}

}  // namespace edgedraft::conformance
