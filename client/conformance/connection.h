#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "shared/base/bytes.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/net/connection.h"
#include "shared/net/tls.h"
#include "shared/protocol/frame.h"
#include "shared/protocol/message.h"

namespace edgedraft::conformance {

struct ServerAddress {
  std::string host;
  std::string port;
  TlsClientOptions tls{};
  std::string token{};
};

// TLS handshakes that a server must accept, or refuse.
enum class Handshake : std::uint8_t { valid, other_alpn, tls_1_2 };

// A TLS connection that sends arbitrary bytes. Calls block up to a deadline.
class Connection {
 public:
  // Errors    unknown_host, link_down, timed_out, untrusted, protocol, and of make_client_context()
  static Result<std::unique_ptr<Connection>> open(const ServerAddress& server,
                                                  Handshake handshake = Handshake::valid);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Ignores failures: the server may have closed the connection, as it should.
  void send(ByteView bytes);
  // Returns the next message after answering Pings and dropping pad frames. Nullopt if none arrives
  // in time or the connection has ended. Throws CheckFailed if the server's bytes are invalid.
  std::optional<wire::Message> next(Duration patience);
  bool ended() const { return has_ended_; }
  // Closes TCP without a Close.
  void cut();

 private:
  explicit Connection(TlsContext& context) : stream_(io_, context) {}
  boost::asio::awaitable<Result<void>> connect(const ServerAddress& server, Handshake handshake);
  void read();

  boost::asio::io_context io_{1};
  TlsStream stream_;
  std::array<std::byte, 16u << 10> buffer_;
  FrameReader reader_{kFramePayloadBytesMax};
  bool has_ended_ = false;
};

}  // namespace edgedraft::conformance
