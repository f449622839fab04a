#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "shared/net/client_link.h"
#include "shared/net/identity.h"
#include "shared/net/listener.h"
#include "tests/support/outgoing.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft {

using namespace std::chrono_literals;

// Properties of a test certificate.
struct TestCertificate {
  std::string common_name = "test";
  std::string alternative_names = "DNS:localhost,IP:127.0.0.1";
  long valid_from_seconds = -3600;  // from now
  long valid_until_seconds = 3600;
  // Name of the CA in the same directory that signs it; empty: self-signed.
  std::string signer{};
  bool is_ca = false;
  long serial = 1;
};

// Writes NAME-cert.pem and NAME-key.pem and returns them with the pin.
TlsIdentity make_identity(const std::filesystem::path& directory, const std::string& name,
                          const TestCertificate& certificate);

// The revocation list (PEM) of a CA in that directory, by certificate serials.
std::string revocation_list(const std::filesystem::path& directory, const std::string& ca,
                            const std::vector<long>& serials, long valid_until_seconds = 3600);

// Accepts every Hello, answers every Prefill with next token 7 and all Hints with next token 8, and
// records events.
class TestApplication final : public ServerApplication {
 public:
  void handle(const ReplyHandle& reply, const PeerInfo& peer, ServerEvent event) override;
  void ended(std::uint64_t connection_id, const PeerInfo& peer, const Error& reason,
             const TrafficStats& traffic) override;
  void failed(const std::string& what) override;

  // Set before the first connection.
  std::vector<std::uint32_t> scale_groups{};
  std::optional<Error> rejection{};
  wire::Ending ending = wire::Ending::none;  // ending of every verdict
  std::string replica{};                     // name in every welcome
  // May be set at any time: the next call of handle() and of ended() throws, once.
  std::atomic<bool> fails_to_handle = false;
  std::atomic<bool> fails_to_end = false;

  // Waits until `count` connections have ended and returns the error of each.
  std::vector<Error> wait_ended(std::size_t count);
  std::vector<std::optional<std::string>> certificate_keys() const;
  std::vector<ReplyHandle> handles() const;
  // Failures reported by the listener.
  std::vector<std::string> failures() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Error> ended_;
  std::vector<std::optional<std::string>> keys_;
  std::vector<ReplyHandle> handles_;
  std::vector<std::string> failures_;
};

// The TLS settings of a server with this certificate.
std::shared_ptr<TlsContext> server_tls(const TlsIdentity& identity,
                                       const std::filesystem::path& client_ca_file = {});

struct TestServerOptions {
  ListenerOptions listener = {.address = "127.0.0.1"};
  std::optional<TlsIdentity> identity{};
  std::filesystem::path client_ca_file{};
};

// A server of an application on a free loopback port, with a self-signed certificate unless another
// is given.
class ServerOf {
 public:
  explicit ServerOf(ServerApplication& application, const TestServerOptions& options = {});

  ClientLinkOptions client_options() const;
  std::unique_ptr<ClientLink> connect() const { return connect(client_options()); }
  // A client with these options that is signed in.
  static std::unique_ptr<ClientLink> connect(ClientLinkOptions options);
  // The first event of a client with these options: "welcome" or an error.
  static Result<ClientEvent> first_event(ClientLinkOptions options);

  test::TemporaryDirectory directory;
  TlsIdentity identity;
  std::unique_ptr<Listener> listener;
};

struct OwnsTestApplication {
  TestApplication application;
};

// The application is a base because the listener must not outlive it.
class TestServer : public OwnsTestApplication, public ServerOf {
 public:
  explicit TestServer(const TestServerOptions& options = {}) : ServerOf(application, options) {}

  // Listens on a port that an earlier listener used. Clients need no certificate.
  void listen_again(std::uint16_t port);
  void expect_serves() const;
};

// A deadline long enough for a busy machine; no test waits that long.
inline Instant soon() {
  return Clock::now() + 20s;
}

inline wire::Prefill small_prompt() {
  return {.tokens = {1, 2, 3}};
}
// A prompt with a run that waits for step().
inline wire::Prefill lockstep_prompt() {
  return {.tokens = {1, 2, 3}, .run = {.credit = 4096, .rows = true, .hold = wire::Hold::lockstep}};
}
// Hints that make the server run a pass for the root alone, at `length` tokens of the session.
inline wire::OutgoingHints step(std::uint32_t length) {
  return outgoing(wire::Hints{.complete = true, .position = length});
}

}  // namespace edgedraft
