#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "shared/base/clock.h"
#include "shared/net/http/http_message.h"

namespace edgedraft {

// Why nobody takes an answer any more.
enum class HttpGone : std::uint8_t {
  left,     // the client closed its connection
  stalled,  // it took nothing for too long, and its connection was closed for that
};

// The answer to one request: whole by send(), or in parts by begin(), write() and end(). What is
// said to a client that has gone goes nowhere. Cheap to copy; where the last copy goes before the
// end, the client is answered 500, or its stream ends.
//
// Threads   any
class HttpReply {
 public:
  void send(HttpAnswer answer);
  // A body whose length is not known yet; head.body is its first part. Where nothing is said for
  // `quiet_max`, `filler` is written, so that nobody between the two takes the connection for dead.
  void begin(HttpAnswer head, Duration quiet_max = Duration::max(), std::string filler = {});
  void write(std::string part);
  void end();

  // Given and not taken by the socket yet: how far the client is behind in reading.
  std::size_t backlog_bytes() const;
  bool gone() const;
  // Called once, on the server's thread or by its destructor, when the client is gone before its
  // answer has ended; at once if it is. It must not wait, and holds no copy of this reply.
  void on_gone(std::function<void(HttpGone)> act);

 private:
  friend class HttpServer;
  struct State;
  struct Owner;
  explicit HttpReply(std::shared_ptr<State> state);
  State& state() const;

  std::shared_ptr<Owner> owner_;
};

}  // namespace edgedraft
