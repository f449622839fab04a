#pragma once

#include <functional>
#include <memory>
#include <string>

#include "shared/net/dialer.h"
#include "shared/net/link_plug.h"
#include "shared/net/send_grid.h"
#include "shared/net/tls.h"
#include "shared/protocol/target_link.h"

namespace edgedraft {

struct ClientLinkOptions {
  std::string host;
  std::string port;
  NameResolver resolver = resolve_by_system;
  TlsClientOptions tls{};
  ClientProtocolOptions protocol{};
  // Returns the token to sign in with when a closed link tries again. Called on the link's thread;
  // may be empty, which keeps the token.
  std::function<std::string()> renew_token{};
  // Sends nothing, not even a TCP handshake, until start_connecting() is called.
  bool connects_later = false;
  Duration connect_timeout = std::chrono::seconds(10);  // name lookup, TCP and TLS together
  Duration write_stall_timeout = std::chrono::seconds(30);
  BackOff back_off{};
  std::uint64_t jitter_seed;
  // Called on the link's thread when wait_event has something new; may be empty. Must not call the
  // link.
  std::function<void()> on_event{};
  // Called on the link's thread for a failure other than an outage: another machine answers in the
  // server's place, or the server refuses sign-in. At most once per outage. For a log; may be
  // empty.
  std::function<void(const Error& error)> on_failure{};
  // Can take the link's network away, and schedules its sending. Outlives the link; may be null.
  LinkPlug* plug = nullptr;
  const SendGrid* grid = nullptr;
  // Shared by the links to one server; null: used by this link only.
  ServerContact* contact = nullptr;
};

// A TargetLink over TLS and TCP with its own thread. Connects at once unless
// options.connects_later, and again with jittered back-off when the connection ends. If several
// connections came and went between calls to wait_event, only the last is reported.
//
// If the peer cannot prove its identity, a link that has never met the server closes; otherwise it
// keeps trying. A server that refuses sign-in or breaks the protocol always closes the link. An
// unknown host closes it unless options.contact has met the server. Until then a misspelt name is
// more likely than an outage. try_again() rereads the certificate files and renews the token.
class ClientLink : public TargetLink {
 public:
  // Errors    those of make_client_context
  static Result<std::unique_ptr<ClientLink>> open(ClientLinkOptions options);
};

}  // namespace edgedraft
