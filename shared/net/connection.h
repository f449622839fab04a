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

// What both ends of a connection share: coroutines that move a session's bytes.
namespace edgedraft {

using TlsStream = boost::asio::ssl::stream<boost::asio::ip::tcp::socket>;

// Wakes a coroutine that waits for it, or will. Not thread-safe: notify on the waiter's strand.
class Signal {
 public:
  explicit Signal(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  void notify();
  // Until notify() or `deadline`, whichever is first. A notify() before counts.
  boost::asio::awaitable<void> wait_until(Instant deadline);

 private:
  boost::asio::steady_timer timer_;
  bool notified_ = false;
};

// A session as the pump sees it, ClientSession or ServerSession.
struct SessionPort {
  // Takes bytes and hands out the events that they make.
  std::function<Result<void>(Instant now, ByteView bytes)> receive;
  std::function<Result<void>(Instant now)> tick;
  std::function<Instant()> next_deadline;
  std::function<bool()> has_output;
  std::function<Bytes()> take_output;
  // More is to leave, at its time: of a padded connection.
  std::function<bool()> paces_output;
};

// Pumps one session over one stream until either ends.
//
// Threads   everything on the stream's strand
class Pump {
 public:
  // Requires  stream and port outlive run()
  Pump(TlsStream& stream, SessionPort port, Duration write_stall_timeout, std::string peer);

  // Moves bytes until the connection breaks, the session fails or finish() is called; in the last
  // two cases what the session still had to say has been sent if the peer took it. Returns why.
  boost::asio::awaitable<Error> run();
  // The session has new output, or another deadline.
  void wake();
  // Send what there is, then end with this reason.
  void finish(Error reason);

 private:
  boost::asio::awaitable<Error> read();
  boost::asio::awaitable<Error> write();
  boost::asio::awaitable<Error> keep_time();

  TlsStream& stream_;
  SessionPort port_;
  Duration write_stall_timeout_;
  std::string peer_;
  Signal output_;
  Signal time_;
  std::optional<Error> ending_;
  std::optional<Instant> write_deadline_;
};

// Performs the handshake of either side.
// Errors    explain_tls_error(); timed_out
boost::asio::awaitable<Result<void>> shake_hands(TlsStream& stream,
                                                 boost::asio::ssl::stream_base::handshake_type side,
                                                 Duration timeout, std::string peer);

// Says goodbye on TLS and TCP level and waits a moment for the peer to do so: closing at once would
// make the kernel drop what the peer has not read yet.
boost::asio::awaitable<void> linger(TlsStream& stream);

}  // namespace edgedraft
