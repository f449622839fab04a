#pragma once

#include <functional>
#include <memory>
#include <string>

#include "shared/net/back_off.h"
#include "shared/net/link_plug.h"
#include "shared/net/name_lookup.h"
#include "shared/net/send_grid.h"
#include "shared/net/server_contact.h"
#include "shared/net/tls.h"
#include "shared/protocol/target_link.h"

namespace edgedraft {

struct ClientLinkOptions {
  std::string host;
  std::string port;
  NameResolver resolver = resolve_by_system;
  TlsClientOptions tls{};
  ClientSessionOptions session{};
  // Asked on the link's thread when a link that had closed tries again: the token to sign in with
  // from then on. May be empty: the same.
  std::function<std::string()> renew_token{};
  Duration connect_timeout = std::chrono::seconds(10);  // name, TCP and TLS together
  Duration write_stall_timeout = std::chrono::seconds(30);
  BackOff back_off{};
  std::uint64_t jitter_seed;
  // Called on the link's thread whenever wait_event has something new to tell; may be empty. It
  // must not call the link.
  std::function<void()> on_event{};
  // Told on the link's thread, once until the server is there again, of what is more than an
  // outage: another answers in the server's place, or it does not let us in. For a log; may be
  // empty.
  std::function<void(const Error& error)> on_failure{};
  // What it hangs on, and what says when it may send. Both outlive it; null: nothing.
  LinkPlug* plug = nullptr;
  const SendGrid* grid = nullptr;
  // Shared by the links to one server; null: the link's own.
  ServerContact* contact = nullptr;
};

// A TargetLink over TLS and TCP with a thread of its own. Connects at once, and again with a
// jittered back-off whenever the connection ends. If connections came and went while nobody waited
// for events, it tells the last.
//
// If the peer cannot prove that it is the server, a link that has never met the server closes, and
// one that has met it keeps looking. A server that refuses us or breaks the protocol closes either
// link. A host without an address (unknown_host) closes it unless options.contact has met the
// server: before that the name is more likely misspelt than out of reach. try_again() reads the
// certificate files again, and asks for the token.
class ClientLink : public TargetLink {
 public:
  // Errors    those of make_client_context
  static Result<std::unique_ptr<ClientLink>> open(ClientLinkOptions options);
};

}  // namespace edgedraft
