#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "shared/base/clock.h"
#include "shared/net/http/http_message.h"

namespace edgedraft {

// Why an answer has no reader any more.
enum class HttpGone : std::uint8_t {
  left,     // the client closed its connection
  stalled,  // it read nothing for too long, so the server closed its connection
};

// The answer to one request: whole by send(), or in parts by begin(), write() and end(). Output for
// a departed client is dropped. Cheap to copy. If the last copy is destroyed before the end, the
// client gets status 500 or its stream ends.
//
// Threads   any
class HttpReply {
 public:
  void send(HttpAnswer answer);
  // Starts a body of unknown length; head.body is its first part. Writes `filler` after `quiet_max`
  // of silence, so that proxies keep the connection open.
  void begin(HttpAnswer head, Duration quiet_max = Duration::max(), std::string filler = {});
  void write(std::string part);
  void end();

  // Bytes written but not yet taken by the socket: the client's lag in reading.
  std::size_t backlog_bytes() const;
  bool gone() const;
  // Called once if the client leaves before its answer ends, at once if it already has. Runs on the
  // server's thread or in its destructor. Must not block or hold a copy of this reply.
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
