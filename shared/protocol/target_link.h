#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/protocol/client_session.h"

namespace edgedraft {

enum class LinkState : std::uint8_t {
  connecting,  // connecting or waiting to try again
  online,      // requests can be sent
  closed,      // by us, or for a reason that needs a human, until try_again()
};

// Counted since the link was made, over all its connections.
struct LinkStats {
  std::uint64_t bytes_up = 0;  // at the TCP socket: TLS, handshakes and frame headers included
  std::uint64_t bytes_down = 0;
  TrafficStats traffic;                  // at the protocol: frames and payloads
  std::uint32_t reconnects = 0;          // sign-ins after the first
  std::uint32_t resumed_handshakes = 0;  // of TLS, by a ticket of an earlier connection

  // What was counted after an earlier look; of the traffic, the activations alone.
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

// A request to the target, or hints for the one in flight. The link fills in `round`.
struct CancelRequest {};
using TargetRequest =
    std::variant<wire::OutgoingPrefill, wire::OutgoingResume, wire::OutgoingHints, CancelRequest>;

// A generation's way to its target, over a network or within the process.
//
// Events come in order: Welcomed first, and again after every reconnect; then a VerdictReceived (of
// a run several) or RequestRefused a request, but none to those sent before a
// CancelRequest. The link reconnects by itself and sends no request twice: after a Welcomed the
// caller resumes.
//
// Threads   one sends and waits; stats() and close() may be called from any
class TargetLink {
 public:
  virtual ~TargetLink() = default;

  // Never waits. What the session refuses without asking the server (context_full, protocol) comes
  // as a RequestRefused.
  // Errors    link_down  not online, or the Welcomed of the connection was not handed out yet;
  //                      nothing was sent
  virtual Result<void> send(TargetRequest request) = 0;

  // The next event, waiting for it until `deadline`; a deadline in the past only looks.
  //
  // Errors    timed_out  nothing came; try again at will
  //           link_down  the connection ended or the first attempt failed; the link goes on trying,
  //                      and the request in flight is lost. Told once, and once more if another
  //                      then answers in the server's place
  //           any other  the link is closed: untrusted, unauthorized, mismatch, version, ...; told
  //                      again at every call, until try_again()
  virtual Result<ClientEvent> wait_event(Instant deadline) = 0;

  virtual LinkState state() const = 0;
  virtual LinkStats stats() const = 0;
  // The network takes no more for now: what is sent waits here, and grows old. For what may as well
  // be sent later, or never.
  virtual bool backed_up() const = 0;
  // Where the link has closed by itself it connects again, as the reason may be gone by now: that
  // it was closed is then told once, as link_down. Nothing otherwise.
  virtual void try_again() {}
  // Says goodbye, drops what is in flight and does not reconnect.
  virtual void close() = 0;
};

}  // namespace edgedraft
