#pragma once

#include <cstdint>
#include <variant>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/protocol/client_protocol.h"

namespace edgedraft {

enum class LinkState : std::uint8_t {
  connecting,  // connecting or waiting to try again
  online,      // requests can be sent
  closed,      // by us, or by a failure that needs the user, until try_again()
};

// Totals over all connections of a link.
struct LinkStats {
  std::uint64_t bytes_up = 0;  // at the TCP socket, with TLS, handshakes and frame headers
  std::uint64_t bytes_down = 0;
  TrafficStats traffic;                  // frames and payloads of the protocol
  std::uint32_t reconnects = 0;          // sign-ins after the first
  std::uint32_t resumed_handshakes = 0;  // TLS handshakes that resumed an earlier session

  // Difference to an earlier reading; of the traffic only the activations.
  LinkStats since(const LinkStats& before) const {
    LinkStats stats{.bytes_up = bytes_up - before.bytes_up,
                    .bytes_down = bytes_down - before.bytes_down,
                    .traffic = {},
                    .reconnects = reconnects - before.reconnects};
    stats.traffic.activation_bytes_raw =
        traffic.activation_bytes_raw - before.traffic.activation_bytes_raw;
    stats.traffic.activation_bytes_sent =
        traffic.activation_bytes_sent - before.traffic.activation_bytes_sent;
    stats.traffic.pad_bytes_out = traffic.pad_bytes_out - before.traffic.pad_bytes_out;
    stats.traffic.pad_bytes_in = traffic.pad_bytes_in - before.traffic.pad_bytes_in;
    return stats;
  }
};

// A request to the target, or hints for the one in flight. The link sets `round`.
struct CancelRequest {};
using TargetRequest =
    std::variant<wire::OutgoingPrefill, wire::OutgoingResume, wire::OutgoingHints, CancelRequest>;

// Connection of a generation to its target, over a network or in the process.
//
// Events come in order: Welcomed first and after every reconnect, then a VerdictReceived (several
// for a run) or RequestRefused per request. Requests sent before a CancelRequest get none. The link
// reconnects on its own and never resends a request: after Welcomed the caller resumes.
//
// Threads   one sends and waits; stats() and close() are safe from any
class TargetLink {
 public:
  virtual ~TargetLink() = default;

  // Never blocks. A request that the session rejects locally (context_full, protocol) yields
  // RequestRefused.
  // Errors    link_down  not online, or Welcomed has not been read yet; nothing was sent
  virtual Result<void> send(TargetRequest request) = 0;

  // Returns the next event, waiting until `deadline`; a past deadline only polls.
  //
  // Errors    timed_out  no event; call again at will
  //           link_down  the connection ended or the first attempt failed. The link keeps trying;
  //                      the request in flight is lost. Reported once, and once more if another
  //                      machine then answers in the server's place
  //           any other  the link is closed: untrusted, unauthorized, mismatch, version, ...;
  //                      reported at every call until try_again()
  virtual Result<ClientEvent> wait_event(Instant deadline) = 0;

  virtual LinkState state() const = 0;
  virtual LinkStats stats() const = 0;
  // The network accepts no more for now, so new messages queue here and age. Check before sending
  // messages that may be sent later or dropped.
  virtual bool backed_up() const = 0;
  // Reconnects a link that closed by itself, in case the reason is gone; the closure is then
  // reported once, as link_down. Otherwise does nothing.
  virtual void try_again() {}
  // Sends Close, drops the request in flight and does not reconnect.
  virtual void close() = 0;
  // Begins to connect, if the link was opened to connect later. Otherwise does nothing.
  virtual void start_connecting() {}
};

}  // namespace edgedraft
