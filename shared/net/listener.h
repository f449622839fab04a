#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "shared/net/tls.h"
#include "shared/protocol/server_session.h"

namespace edgedraft {

// How an application answers a connection, from any thread. Cheap to copy. Outlives the connection:
// what is said after its end goes nowhere.
class ReplyHandle {
 public:
  // Unique within the process.
  std::uint64_t connection_id() const;

  // As ServerSession's of the same names. What breaks off there is not told here: RoundCancelled
  // and ended() say so.
  void accept(wire::Welcome welcome, std::uint32_t padded_row_bytes = 0) const;
  void verdict(wire::Verdict verdict) const;
  void activations(wire::Activations chunk) const;
  // The same, of a run.
  void run_activations(wire::Activations rows) const;
  void refuse(std::uint32_t round, Error error) const;
  void fail(Error error) const;

  // Verdicts that were given and that the socket has not taken yet: how far the client is behind in
  // reading.
  static constexpr std::uint32_t kBacklogFull = 64;
  std::uint32_t backlog() const;
  // The same in bytes of the rows that a run brings.
  static constexpr std::uint32_t kBacklogBytesFull = 4u << 20;
  std::uint32_t backlog_bytes() const;
  // Either is: a stream or run has to pause until ServerApplication::drained().
  bool full() const { return backlog() >= kBacklogFull || backlog_bytes() >= kBacklogBytesFull; }
  // As backlog(), of a prompt's activations: at kChunkBacklogFull no more are to be made until
  // then.
  static constexpr std::uint32_t kChunkBacklogFull = 8;
  std::uint32_t chunk_backlog() const;

 private:
  friend class Listener;
  struct Target;
  explicit ReplyHandle(std::shared_ptr<Target> target) : target_(std::move(target)) {}
  // Shared: a compute thread may hold the last copy.
  std::shared_ptr<Target> target_;
};

// The peer at the other end, before it signs in.
struct PeerInfo {
  std::string address;                         // "192.0.2.1:50000"
  bool secured = false;                        // the TLS handshake is over
  std::optional<std::string> certificate_key;  // pin of a client certificate that our CA signed
};

// What a server does with its connections.
//
// Threads   calls for one connection come one at a time, those for several at once. They must not
//           wait: hand work to another thread and answer through the handle.
class ServerApplication {
 public:
  virtual ~ServerApplication() = default;

  // The first event of a connection is HelloReceived, and its TLS handshake is done.
  virtual void handle(const ReplyHandle& reply, const PeerInfo& peer, ServerEvent event) = 0;
  // A connection whose backlog was full has room again.
  virtual void drained(std::uint64_t /*connection_id*/) {}
  // What went wrong on this side, before there was a connection or at its end; the listener goes
  // on.
  virtual void failed(const std::string& /*what*/) {}
  // A connection is over. Also for those that never got as far as an event, so that faulty peers
  // can be logged. link_down and "closed by the client" is the ordinary end; refused that of a
  // stranger that made room for others.
  virtual void ended(std::uint64_t connection_id, const PeerInfo& peer, const Error& reason,
                     const TrafficStats& traffic) = 0;
};

struct ListenerOptions {
  std::string address;     // numeric, e.g. "127.0.0.1" or "::1"
  std::uint16_t port = 0;  // 0 takes a free one
  ServerSessionOptions session{};
  // When all are taken, a new connection pushes out the oldest that has not signed in; where all
  // have, the new one is closed at once.
  std::uint32_t connections_max = 1024;
  // Connections of one address (of IPv6: of one /64) that have not signed in; one more pushes out
  // the oldest of them.
  std::uint32_t strangers_per_address_max = 256;
  std::uint32_t io_thread_count = 2;
  Duration tls_timeout = std::chrono::seconds(10);
  Duration write_stall_timeout = std::chrono::seconds(30);
  // For drain(): a client that has been silent for so long after an answer does not draft on.
  Duration drafting_time_max = std::chrono::seconds(2);
};

struct ListenerStats {
  std::uint64_t accepted = 0;
  std::uint64_t over_limit = 0;  // closed at once, or pushed out
  std::uint64_t failed = 0;      // accepted, and closed again for a failure of ours
  std::uint32_t open = 0;
  std::uint64_t bytes_in = 0;  // at the TCP sockets, as of what each connection read last
  std::uint64_t bytes_out = 0;
};

// Accepts clients over TLS, each on a strand of its own. A faulty one costs its connection alone.
class Listener {
 public:
  // Listens and accepts from here on.
  //
  // Requires  application outlives the listener
  // Errors    throws ListenError where the address cannot be bound
  Listener(ListenerOptions options, std::shared_ptr<TlsContext> tls,
           ServerApplication& application);
  // As stop() with no time to wait.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  std::uint16_t port() const;
  // For connections from now on: a renewed certificate. Threads: any.
  void set_tls(std::shared_ptr<TlsContext> tls);
  ListenerStats stats() const;
  // Stops accepting, says goodbye to everyone whose answer is over and returns when all are gone,
  // after `limit` at the latest; stop() sees to the rest. Call once at most.
  void drain(Duration limit);
  // Stops accepting, says goodbye to everyone and waits until all are gone, `grace` at most; then
  // cuts off the rest. After it returns the application is not called any more. Call once at most.
  void stop(Duration grace);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace edgedraft
