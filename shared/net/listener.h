#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "shared/net/tls.h"
#include "shared/protocol/server_protocol.h"

namespace edgedraft {

// Answers one connection, from any thread. Cheap to copy. Outlives the connection; output after its
// end is dropped.
class ReplyHandle {
 public:
  // Unique within the process.
  std::uint64_t connection_id() const;

  // As in ServerProtocol. Failures are not reported here: RoundCancelled and ended() do that.
  void accept(wire::Welcome welcome, std::uint32_t padded_row_bytes = 0) const;
  void verdict(wire::Verdict verdict) const;
  void activations(wire::Activations chunk) const;
  // As activations(), for a run.
  void run_activations(wire::Activations rows) const;
  void reading(std::uint32_t round) const;
  void refuse(std::uint32_t round, Error error) const;
  void fail(Error error) const;

  // Verdicts that the socket has not taken yet: the client's lag in reading.
  static constexpr std::uint32_t kBacklogFull = 64;
  std::uint32_t backlog() const;
  // Limit for bytes of a run's rows that the socket has not taken yet.
  static constexpr std::uint32_t kBacklogBytesFull = 4u << 20;
  std::uint32_t backlog_bytes() const;
  // A run must pause until ServerApplication::drained().
  bool full() const { return backlog() >= kBacklogFull || backlog_bytes() >= kBacklogBytesFull; }
  // Chunks of a prompt's activations that the socket has not taken. At kChunkBacklogFull, make no
  // more until drained().
  static constexpr std::uint32_t kChunkBacklogFull = 8;
  std::uint32_t chunk_backlog() const;

 private:
  friend class Listener;
  struct Target;
  explicit ReplyHandle(std::shared_ptr<Target> target) : target_(std::move(target)) {}
  // Shared, because a compute thread may hold the last copy.
  std::shared_ptr<Target> target_;
};

// The peer of a connection, before sign-in.
struct PeerInfo {
  std::string address;                         // "192.0.2.1:50000"
  bool secured = false;                        // the TLS handshake is complete
  std::optional<std::string> certificate_key;  // pin of a client certificate signed by our CA
};

// The application side of a server.
//
// Threads   one call at a time per connection, concurrent across connections. Calls must not block:
//           hand work to another thread and answer through the handle.
class ServerApplication {
 public:
  virtual ~ServerApplication() = default;

  // Called after the TLS handshake; the first event of a connection is HelloReceived.
  virtual void handle(const ReplyHandle& reply, const PeerInfo& peer, ServerEvent event) = 0;
  // A full backlog of this connection has space again.
  virtual void drained(std::uint64_t /*connection_id*/) {}
  // Reports a failure of this side outside a connection; the listener continues.
  virtual void failed(const std::string& /*what*/) {}
  // A connection ended, even one without any event, so that faulty peers can be logged. The normal
  // end is link_down with "closed by the client". refused means that an unauthenticated peer was
  // pushed out.
  virtual void ended(std::uint64_t connection_id, const PeerInfo& peer, const Error& reason,
                     const TrafficStats& traffic) = 0;
};

struct ListenerOptions {
  std::string address;     // numeric, e.g. "127.0.0.1" or "::1"
  std::uint16_t port = 0;  // 0 picks a free port
  ServerProtocolOptions protocol{};
  // If all are taken, a new connection pushes out the oldest that has not signed in; if all have,
  // it is closed at once.
  std::uint32_t connections_max = 1024;
  // Connections per address (IPv6: per /64) that have not signed in; one more pushes out the oldest
  // of them.
  std::uint32_t strangers_per_address_max = 256;
  std::uint32_t io_thread_count = 2;
  Duration tls_timeout = std::chrono::seconds(10);
  Duration write_stall_timeout = std::chrono::seconds(30);
  // For drain(): after this much silence following an answer, a client counts as finished.
  Duration drafting_time_max = std::chrono::seconds(2);
};

struct ListenerStats {
  std::uint64_t accepted = 0;
  std::uint64_t over_limit = 0;  // closed at once, or pushed out
  std::uint64_t failed = 0;      // accepted, then closed for a failure of ours
  std::uint32_t open = 0;
  std::uint64_t bytes_in = 0;  // at the TCP sockets, updated at each connection's reads
  std::uint64_t bytes_out = 0;
};

// Accepts clients over TLS, each on its own strand. A faulty client only loses its own connection.
class Listener {
 public:
  // Starts listening and accepting.
  //
  // Requires  application outlives the listener
  // Errors    throws ListenError if the address cannot be bound
  Listener(ListenerOptions options, std::shared_ptr<TlsContext> tls,
           ServerApplication& application);
  // Same as stop() with a grace of zero.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  std::uint16_t port() const;
  // Uses a renewed certificate for new connections. Threads: any.
  void set_tls(std::shared_ptr<TlsContext> tls);
  ListenerStats stats() const;
  // Stops accepting, closes each connection once its answer is complete, and returns when all are
  // gone, at the latest after `limit`. stop() ends the rest. Call at most once.
  void drain(Duration limit);
  // Stops accepting, closes all connections, waits up to `grace` and cuts off the rest. The
  // application receives no calls after it returns. Call at most once.
  void stop(Duration grace);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace edgedraft
