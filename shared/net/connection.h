#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <optional>
#include <string>

#include "shared/base/bytes.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/net/tls.h"

// Coroutines that move a connection's bytes, for both ends of a connection.
namespace edgedraft {

using TlsStream = boost::asio::ssl::stream<boost::asio::ip::tcp::socket>;

// Wakes the current or next waiting coroutine. Not thread-safe: notify on the waiter's strand.
class Signal {
 public:
  explicit Signal(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  void notify();
  // Waits until notify() or `deadline`, whichever is first. An earlier notify() counts.
  boost::asio::awaitable<void> wait_until(Instant deadline);

 private:
  boost::asio::steady_timer timer_;
  bool notified_ = false;
};

// Interface of the pump to a ClientProtocol or ServerProtocol.
struct ProtocolPort {
  // Takes bytes and emits the resulting events.
  std::function<Result<void>(Instant now, ByteView bytes)> receive;
  std::function<Result<void>(Instant now)> tick;
  std::function<Instant()> next_deadline;
  std::function<bool()> has_output;
  std::function<Bytes()> take_output;
  // Further output of a padded connection is due later.
  std::function<bool()> paces_output;
};

// Moves the bytes of one connection over one stream until either ends.
//
// Threads   all calls on the stream's strand
class Pump {
 public:
  // Requires  stream and port outlive run()
  Pump(TlsStream& stream, ProtocolPort port, Duration write_stall_timeout, std::string peer);

  // Moves bytes until the connection breaks, the protocol fails or finish() is called. In the last
  // two cases the protocol's remaining output is sent if the peer takes it. Returns the reason.
  boost::asio::awaitable<Error> run();
  // Call if the protocol has new output or a new deadline.
  void wake();
  // Sends remaining output, then ends with this reason.
  void finish(Error reason);

 private:
  boost::asio::awaitable<Error> read();
  boost::asio::awaitable<Error> write();
  boost::asio::awaitable<Error> keep_time();

  TlsStream& stream_;
  ProtocolPort port_;
  Duration write_stall_timeout_;
  std::string peer_;
  Signal output_;
  Signal time_;
  std::optional<Error> ending_;
  std::optional<Instant> write_deadline_;
};

// Returns once the client's certificate has expired: TLS checks its dates in handshakes only. Never
// returns if there is none.
boost::asio::awaitable<void> client_expired(TlsStream& stream);

// Performs the TLS handshake of either side.
// Errors    explain_tls_error(); timed_out
boost::asio::awaitable<Result<void>> shake_hands(TlsStream& stream,
                                                 boost::asio::ssl::stream_base::handshake_type side,
                                                 Duration timeout, std::string peer);

// Closes TLS and TCP and briefly waits for the peer to do so. Closing at once would make the kernel
// drop data that the peer has not read.
boost::asio::awaitable<void> linger(TlsStream& stream);

}  // namespace edgedraft
