#include "shared/net/tls.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <boost/asio/ssl/context.hpp>
#include <cctype>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/net/net_support.h"
#include "tests/net/raw_peer.h"
#include "tests/support/expect.h"

// Trust of client and server, each with a real handshake over the loopback.
namespace edgedraft {
namespace {

std::string all_of(const std::vector<Error>& errors) {
  std::string all;
  for (const Error& error : errors) all += error.message + "\n";
  return all;
}

// Options of a client that presents this certificate.
ClientLinkOptions options_with(const TestServer& server, const TlsIdentity& client) {
  ClientLinkOptions options = server.client_options();
  options.tls.certificate_file = client.certificate_file;
  options.tls.key_file = client.key_file;
  return options;
}

// The server's clock is twenty minutes ahead.
void turn_clock_forward(TlsContext& tls) {
  X509_VERIFY_PARAM_set_time(X509_STORE_get0_param(SSL_CTX_get_cert_store(tls.native_handle())),
                             std::time(nullptr) + 1200);
}

TEST(TlsTest, TrustsMatchingPin) {
  const TestServer server;
  EXPECT_TRUE(TestServer::first_event(server.client_options()));
}

TEST(TlsTest, AcceptsPinInUpperCase) {
  const TestServer server;
  ClientLinkOptions options = server.client_options();
  for (char& c : options.tls.pin) c = static_cast<char>(std::toupper(c));
  options.tls.pin.replace(0, 7, "sha256:");
  EXPECT_TRUE(TestServer::first_event(options));
}

TEST(TlsTest, RefusesWrongPinAndShowsBoth) {
  TestServer server;
  ClientLinkOptions options = server.client_options();
  options.tls.pin = make_identity(server.directory.path(), "other", {}).pin;
  const auto event = TestServer::first_event(options);
  EXPECT_TRUE(fails_with(event, Errc::untrusted, options.tls.pin));
  EXPECT_TRUE(fails_with(event, Errc::untrusted, server.identity.pin));
  server.application.wait_ended(1);
  EXPECT_TRUE(server.application.handles().empty()) << "no Hello was sent";
}

TEST(TlsTest, MalformedPinIsUsageError) {
  const TestServer server;
  const std::vector<std::string> bad = {"sha256:12", "sha1:00", "x",
                                        "sha256:" + std::string(64, 'g')};
  for (const std::string& pin : bad) {
    ClientLinkOptions options = server.client_options();
    options.tls.pin = pin;
    EXPECT_EQ(ClientLink::open(options).error().code, Errc::usage) << pin;
  }
}

TEST(TlsTest, RefusesExpiredOrFutureCertificateWithMatchingPin) {
  const test::TemporaryDirectory directory;
  struct Case {
    TestCertificate certificate;
    const char* message;
  };
  const Case cases[] = {
      {{.valid_from_seconds = -7200, .valid_until_seconds = -3600}, "expired"},
      {{.valid_from_seconds = 3600, .valid_until_seconds = 7200}, "not valid before"}};
  for (const auto& [certificate, message] : cases) {
    const TestServer server({.identity = make_identity(directory.path(), "leaf", certificate)});
    const auto event = TestServer::first_event(server.client_options());
    EXPECT_TRUE(fails_with(event, Errc::untrusted, message));
  }
}

class TlsCaTest : public ::testing::Test {
 protected:
  TlsCaTest() {
    make_identity(directory_.path(), "ca", {.common_name = "our CA", .is_ca = true});
    make_identity(directory_.path(), "other-ca", {.common_name = "other CA", .is_ca = true});
  }

  Result<ClientEvent> connect(const TestServer& server, const std::string& ca,
                              const std::string& host) {
    ClientLinkOptions options = server.client_options();
    options.host = host;
    options.tls = {.ca_file = directory_ / (ca + "-cert.pem")};
    return TestServer::first_event(options);
  }

  TlsIdentity signed_by(const std::string& ca, TestCertificate certificate) {
    certificate.signer = ca;
    return make_identity(directory_.path(), "leaf", certificate);
  }

  // A file with the CA's certificate and the revocation list.
  std::filesystem::path with_list(const std::string& list) {
    std::ifstream certificate(directory_ / "ca-cert.pem");
    std::ostringstream text;
    text << certificate.rdbuf() << list;
    return directory_.write("ca-and-list.pem", text.str());
  }

  test::TemporaryDirectory directory_;
};

TEST_F(TlsCaTest, TrustsCaSignedServerByNameAndAddress) {
  const TestServer server({.identity = signed_by("ca", {})});
  EXPECT_TRUE(connect(server, "ca", "localhost"));
  EXPECT_TRUE(connect(server, "ca", "127.0.0.1"));
}

TEST_F(TlsCaTest, RefusesAnotherCa) {
  const TestServer server({.identity = signed_by("other-ca", {})});
  EXPECT_TRUE(fails_with(connect(server, "ca", "localhost"), Errc::untrusted, "--ca"));
}

TEST_F(TlsCaTest, RefusesSelfSignedCertificate) {
  EXPECT_TRUE(fails_with(connect(TestServer(), "ca", "localhost"), Errc::untrusted));
}

TEST_F(TlsCaTest, RefusesAnotherHostName) {
  const TestServer server({.identity = signed_by("ca", {.alternative_names = "DNS:example.org"})});
  EXPECT_TRUE(fails_with(connect(server, "ca", "localhost"), Errc::untrusted, "ostname"));
  EXPECT_TRUE(fails_with(connect(server, "ca", "127.0.0.1"), Errc::untrusted));
}

// A balancer reads the name from SNI; the certificate must still be the host's.
TEST_F(TlsCaTest, PutsReplicaIntoSniAndChecksHost) {
  TestApplication application;
  application.replica = "r1";
  const TlsIdentity identity = signed_by("ca", {});
  const auto tls = server_tls(identity);
  std::vector<std::string> names;
  SSL_CTX_set_tlsext_servername_arg(tls->native_handle(), &names);
  SSL_CTX_set_tlsext_servername_callback(
      tls->native_handle(), +[](SSL* connection, int*, void* seen) {
        const char* const name = SSL_get_servername(connection, TLSEXT_NAMETYPE_host_name);
        static_cast<std::vector<std::string>*>(seen)->emplace_back(name == nullptr ? "" : name);
        return SSL_TLSEXT_ERR_OK;
      });
  Listener listener({.address = "127.0.0.1"}, tls, application);
  ServerContact contact;
  for (const char* const host : {"localhost", "localhost", "127.0.0.1"}) {
    EXPECT_TRUE(TestServer::first_event({.host = host,
                                         .port = std::to_string(listener.port()),
                                         .tls = {.ca_file = directory_ / "ca-cert.pem"},
                                         .jitter_seed = 1,
                                         .contact = &contact}));
  }
  listener.stop(1s);
  EXPECT_EQ(names, (std::vector<std::string>{"localhost", "r1", "r1"}));
}

TEST_F(TlsCaTest, ReplicaNameDoesNotReplaceHostName) {
  const TestServer server({.identity = signed_by("ca", {.alternative_names = "DNS:r1"})});
  ServerContact contact;
  contact.set_replica("r1");
  ClientLinkOptions options = server.client_options();
  options.host = "localhost";
  options.tls = {.ca_file = directory_ / "ca-cert.pem"};
  options.contact = &contact;
  EXPECT_TRUE(fails_with(TestServer::first_event(options), Errc::untrusted, "ostname"));
}

TEST_F(TlsCaTest, RefusesExpiredCertificate) {
  const TestServer server(
      {.identity = signed_by("ca", {.valid_from_seconds = -7200, .valid_until_seconds = -3600})});
  EXPECT_TRUE(fails_with(connect(server, "ca", "localhost"), Errc::untrusted, "expired"));
}

TEST_F(TlsCaTest, SystemRootsDoNotTrustTestCa) {
  const TestServer server({.identity = signed_by("ca", {})});
  ClientLinkOptions options = server.client_options();
  options.tls = {};
  EXPECT_TRUE(fails_with(TestServer::first_event(options), Errc::untrusted));
}

TEST_F(TlsCaTest, IdentifiesClientByKeyInsteadOfName) {
  TestServer server({.client_ca_file = directory_ / "ca-cert.pem"});
  std::vector<std::string> pins;
  for (int i = 0; i < 2; ++i) {
    const auto client = signed_by("ca", {.common_name = "alice"});
    pins.push_back(client.pin);
    EXPECT_TRUE(TestServer::first_event(options_with(server, client)));
  }
  const auto keys = server.application.certificate_keys();
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0], pins[0]);
  EXPECT_EQ(keys[1], pins[1]);
  EXPECT_NE(pins[0], pins[1]);
}

TEST_F(TlsCaTest, RefusesMissingOrForeignClientCertificate) {
  TestServer server({.client_ca_file = directory_ / "ca-cert.pem"});
  EXPECT_TRUE(fails_with(TestServer::first_event(server.client_options()), Errc::untrusted));

  const auto stranger = signed_by("other-ca", {.common_name = "mallory"});
  const auto refused = TestServer::first_event(options_with(server, stranger));
  EXPECT_TRUE(fails_with(refused, Errc::untrusted));
  EXPECT_TRUE(server.application.handles().empty());

  // The message tells the server's operator what to do, not the client's user.
  const std::string said = all_of(server.application.wait_ended(2));
  EXPECT_TRUE(contains(said, "a client certificate is required"));
  EXPECT_TRUE(contains(said, "--client-ca"));
  EXPECT_EQ(said.find("--pin"), std::string::npos) << said;
}

TEST_F(TlsCaTest, RefusesRevokedClientCertificate) {
  TestServer server({.client_ca_file = with_list(revocation_list(directory_.path(), "ca", {2}))});
  for (const long serial : {1L, 2L}) {
    const auto client = signed_by("ca", {.serial = serial});
    const auto event = TestServer::first_event(options_with(server, client));
    EXPECT_TRUE(serial == 1 ? bool(event) : bool(fails_with(event, Errc::untrusted))) << serial;
  }
  const std::string said = all_of(server.application.wait_ended(2));
  EXPECT_TRUE(contains(said, "certificate revoked"));
  EXPECT_EQ(said.find("--client-ca"), std::string::npos) << "names a useless remedy: " << said;
}

TEST_F(TlsCaTest, RefusesRevokedServerCertificate) {
  const TestServer server({.identity = signed_by("ca", {})});
  ClientLinkOptions options = server.client_options();
  options.tls = {.ca_file = with_list(revocation_list(directory_.path(), "ca", {1}))};
  const auto event = TestServer::first_event(options);
  EXPECT_TRUE(fails_with(event, Errc::untrusted, "certificate revoked"));
}

// An expired list cannot say which certificates are revoked, with a session ticket or without.
TEST_F(TlsCaTest, ExpiredRevocationListRefusesAllClients) {
  TestServer server;
  const auto list = revocation_list(directory_.path(), "ca", {}, /*valid_until_seconds=*/600);
  const auto tls = server_tls(server.identity, with_list(list));
  server.listener->set_tls(tls);
  const auto client = signed_by("ca", {});
  const auto link = TestServer::connect(options_with(server, client));

  turn_clock_forward(*tls);
  server.application.handles().at(0).fail({Errc::refused, "come again"});
  EXPECT_TRUE(fails_with(link->wait_event(soon()), Errc::link_down));
  EXPECT_TRUE(fails_with(link->wait_event(soon()), Errc::untrusted));
  const std::string said = all_of(server.application.wait_ended(2));
  EXPECT_TRUE(contains(said, "put a current revocation list"));
}

TEST_F(TlsCaTest, RefusesFileWithoutCaCertificate) {
  const auto list = directory_.write("list.pem", revocation_list(directory_.path(), "ca", {}));
  const auto identity = signed_by("ca", {});
  for (const Error& error : {make_server_context({.certificate_file = identity.certificate_file,
                            .key_file = identity.key_file,
                            .client_ca_file = list})
                                 .error(),
                             make_client_context({.ca_file = list}).error()}) {
    EXPECT_EQ(error.code, Errc::bad_file);
    EXPECT_TRUE(contains(error.message, "list.pem: contains no CA certificate"));
  }
}

// Otherwise a ticket would replace a certificate forever, and without its key.
TEST_F(TlsCaTest, RefusesExpiredClientCertificateDespiteTicket) {
  TestServer server;
  const auto tls = server_tls(server.identity, directory_ / "ca-cert.pem");
  server.listener->set_tls(tls);
  const auto client = signed_by("ca", {.valid_until_seconds = 600});
  const auto link = TestServer::connect(options_with(server, client));
  server.application.handles().at(0).fail({Errc::refused, "come again"});
  EXPECT_TRUE(fails_with(link->wait_event(soon()), Errc::link_down));
  ASSERT_TRUE(link->wait_event(soon()));
  EXPECT_EQ(link->stats().resumed_handshakes, 1u);

  turn_clock_forward(*tls);
  server.listener->set_tls(tls);
  server.application.handles().at(1).fail({Errc::refused, "come again"});
  EXPECT_TRUE(fails_with(link->wait_event(soon()), Errc::link_down));
  const auto event = link->wait_event(soon());
  EXPECT_TRUE(fails_with(event, Errc::untrusted, "expired"));
  const std::string said = all_of(server.application.wait_ended(3));
  EXPECT_TRUE(contains(said, "the client has to renew its certificate"));

  // The link rereads the files.
  signed_by("ca", {});
  link->try_again();
  EXPECT_TRUE(fails_with(link->wait_event(soon()), Errc::link_down));
  const auto renewed = link->wait_event(soon());
  EXPECT_TRUE(renewed) << renewed.error().message;
  EXPECT_EQ(link->stats().resumed_handshakes, 1u);
}

// Otherwise a client could stay as long as its connection lives.
TEST_F(TlsCaTest, ConnectionEndsWhenClientCertificateExpires) {
  TestServer server;
  server.listener->set_tls(server_tls(server.identity, directory_ / "ca-cert.pem"));
  const auto client = signed_by("ca", {.valid_until_seconds = 4});
  const auto link = TestServer::connect(options_with(server, client));
  EXPECT_TRUE(fails_with(link->wait_event(soon()), Errc::link_down, "certificate has expired"));
  EXPECT_TRUE(fails_with(link->wait_event(soon()), Errc::untrusted, "expired"));
}

TEST(TlsTest, RefusesTls12) {
  TestServer server;
  RawTlsPeer peer(server.listener->port(), {.version_max = TLS1_2_VERSION});
  EXPECT_FALSE(peer.shake_hands());
  EXPECT_TRUE(contains(server.application.wait_ended(1)[0].message, "TLS 1.3"));
  server.expect_serves();
}

TEST(TlsTest, RefusesClientWithoutOurAlpnProtocol) {
  TestServer server;
  {
    RawTlsPeer none(server.listener->port(), {.alpn = ""});
    none.shake_hands();
    EXPECT_TRUE(none.read_to_end().empty());
  }
  RawTlsPeer other(server.listener->port(), {.alpn = "\x08http/1.1"});
  EXPECT_FALSE(other.shake_hands());
  for (const Error& error : server.application.wait_ended(2)) {
    EXPECT_TRUE(contains(error.message, "edgedraft/1"));
  }
  server.expect_serves();
}

TEST(TlsTest, OffersNoEarlyData) {
  TestServer server;
  RawTlsPeer peer(server.listener->port(), {});
  ASSERT_TRUE(peer.shake_hands());
  peer.write(wire::encode(wire::Hello()));
  EXPECT_FALSE(peer.read_some().empty()) << "the welcome, sent after the session tickets";
  EXPECT_EQ(peer.early_data_bytes_max(), 0u);
}

TEST(TlsTest, ReportsPlainTextClient) {
  TestServer server;
  RawPeer peer(server.listener->port());
  peer.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  peer.read_to_end();
  const Error error = server.application.wait_ended(1)[0];
  EXPECT_TRUE(contains(error.message, "does not speak TLS"));
  server.expect_serves();
}

// Anybody on the path can inject it.
TEST(TlsTest, InjectedRecordIsNotBlamedOnPeer) {
  TestServer server;
  RawTlsPeer peer(server.listener->port(), {});
  ASSERT_TRUE(peer.shake_hands());
  peer.write(wire::encode(wire::Hello()));
  ASSERT_FALSE(peer.read_some().empty());
  peer.tcp().write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  peer.tcp().read_to_end();
  EXPECT_EQ(server.application.wait_ended(1)[0].code, Errc::link_down);
}

// The first event of a client of a server that is not ours.
Result<ClientEvent> first_event_of(const RawServer& server, Duration timeout = 20s) {
  return TestServer::first_event({.host = "127.0.0.1",
                                  .port = std::to_string(server.port()),
                                  .connect_timeout = timeout,
                                  .jitter_seed = 1});
}

TEST(TlsTest, ReportsPlainTextServer) {
  RawServer server([](RawPeer& peer) {
    peer.read_some();
    peer.write("HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  const auto event = first_event_of(server);
  EXPECT_TRUE(fails_with(event, Errc::protocol, "does not speak TLS"));
}

TEST(TlsTest, ReportsServerThatClosesInHandshake) {
  RawServer server([](RawPeer& peer) { peer.read_some(); });
  const auto event = first_event_of(server);
  EXPECT_TRUE(fails_with(event, Errc::link_down, "handshake"));
}

TEST(TlsTest, TimesOutSilentServer) {
  RawServer server([](RawPeer& peer) { peer.read_to_end(); });
  const auto event = first_event_of(server, 50ms);
  EXPECT_TRUE(fails_with(event, Errc::link_down, "in time"));
}

}  // namespace
}  // namespace edgedraft
