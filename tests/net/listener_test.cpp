#include "shared/net/listener.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <new>
#include <thread>
#include <utility>

#include "shared/net/listening.h"
#include "tests/net/net_support.h"
#include "tests/net/raw_peer.h"
#include "tests/support/expect.h"
#include "tests/support/skip.h"

namespace edgedraft {
namespace {

bool has_ipv6() {
  boost::asio::io_context io;
  boost::system::error_code error;
  const boost::asio::ip::tcp::endpoint any(boost::asio::ip::tcp::v6(), 0);
  boost::asio::ip::tcp::acceptor acceptor(io);
  acceptor.open(any.protocol(), error);
  if (!error) acceptor.bind(any, error);
  return !error;
}

TEST(ListenerTest, PortZeroPicksFreePort) {
  const TestServer a;
  const TestServer b;
  EXPECT_NE(a.listener->port(), 0);
  EXPECT_NE(a.listener->port(), b.listener->port());
}

TEST(ListenerTest, ThrowsIfPortIsTaken) {
  TestServer server;
  const ListenerOptions taken{.address = "127.0.0.1", .port = server.listener->port()};
  EXPECT_THROW(Listener(taken, server_tls(server.identity), server.application), ListenError);
}

TEST(ListenerTest, ServesManyClientsAtOnce) {
  const TestServer server;
  std::vector<std::unique_ptr<ClientLink>> links;
  for (int i = 0; i < 20; ++i) links.push_back(ClientLink::open(server.client_options()).value());
  for (const auto& link : links) EXPECT_TRUE(link->wait_event(soon()));
  EXPECT_EQ(server.listener->stats().open, 20u);
  for (const auto& link : links) EXPECT_TRUE(link->send(outgoing(small_prompt())));
  for (const auto& link : links) {
    const auto event = link->wait_event(soon());
    ASSERT_TRUE(event);
    EXPECT_TRUE(std::holds_alternative<VerdictReceived>(*event));
  }
}

TEST(ListenerTest, StopNotifiesClients) {
  TestServer server;
  const auto link = server.connect();
  server.listener->stop(10s);
  EXPECT_EQ(server.listener->stats().open, 0u);
  const auto event = link->wait_event(soon());
  ASSERT_FALSE(event);
  EXPECT_TRUE(contains(event.error().message, "shutting down"));
}

TEST(ListenerTest, StopCutsOffStalledPeers) {
  TestServer server;
  const RawPeer stalled(server.listener->port());
  while (server.listener->stats().open == 0) std::this_thread::yield();
  server.listener->stop(0s);
  EXPECT_EQ(server.listener->stats().open, 0u);
}

TEST(ListenerTest, SilentPeersMakeRoomForNewOnes) {
  TestServer server({.listener = {.address = "127.0.0.1", .connections_max = 4}});
  const auto inside = server.connect();
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 10; ++i) {
    silent.push_back(std::make_unique<RawPeer>(server.listener->port()));
  }
  EXPECT_TRUE(silent[0]->read_to_end().empty()) << "the oldest peer is closed first";
  server.expect_serves();
  ASSERT_TRUE(inside->send(outgoing(small_prompt())));
  EXPECT_TRUE(inside->wait_event(soon())) << "signed-in clients stay";
}

TEST(ListenerTest, LimitsUnauthenticatedPeersPerAddress) {
  TestServer server({.listener = {.address = "127.0.0.1", .strangers_per_address_max = 2}});
  const auto inside = server.connect();
  RawPeer first(server.listener->port());
  const RawPeer second(server.listener->port());
  const RawPeer third(server.listener->port());
  EXPECT_TRUE(first.read_to_end().empty());
  server.expect_serves();
  EXPECT_EQ(server.listener->stats().over_limit, 2u);
}

// A dual-stack listener sees IPv4 addresses as parts of one IPv6 network.
TEST(ListenerTest, LimitsEachIpv4AddressSeparately) {
  if (!has_ipv6()) EDGEDRAFT_SKIP_WITHOUT("ipv6", "this system has no address for both families");
  TestServer server({.listener = {.address = "::", .strangers_per_address_max = 1}});
  RawPeer other(server.listener->port(), 2);
  server.expect_serves();
  other.write("this is no TLS");
  other.finish_writing();
  other.read_to_end();
  const auto ended = server.application.wait_ended(2);
  EXPECT_TRUE(std::ranges::none_of(ended, [](const Error& e) { return e.code == Errc::refused; }));
}

// Otherwise they would count as peers that do not speak TLS.
TEST(ListenerTest, ReportsEvictedPeersAsRefused) {
  TestServer server({.listener = {.address = "127.0.0.1", .strangers_per_address_max = 1}});
  RawPeer first(server.listener->port());
  RawPeer second(server.listener->port());
  EXPECT_TRUE(first.read_to_end().empty());
  EXPECT_EQ(server.application.wait_ended(1)[0].code, Errc::refused);
  second.write("this is no TLS");
  second.finish_writing();
  second.read_to_end();
  EXPECT_NE(server.application.wait_ended(2)[1].code, Errc::refused);
}

TEST(ListenerTest, ClosesConnectionsOverLimit) {
  TestServer server({.listener = {.address = "127.0.0.1", .connections_max = 1}});
  const auto first = server.connect();
  RawPeer second(server.listener->port());
  EXPECT_TRUE(second.read_to_end().empty());
  EXPECT_EQ(server.listener->stats().over_limit, 1u);
  ASSERT_TRUE(first->send(outgoing(small_prompt())));
  EXPECT_TRUE(first->wait_event(soon())) << "the signed-in client is unaffected";
}

TEST(ListenerTest, NewConnectionsGetRenewedCertificate) {
  TestServer server;
  const auto renewed = make_identity(server.directory.path(), "renewed", {});
  const auto before = server.connect();
  server.listener->set_tls(server_tls(renewed));
  ClientLinkOptions options = server.client_options();
  options.tls.pin = renewed.pin;
  EXPECT_TRUE(TestServer::first_event(options));
  ASSERT_TRUE(before->send(outgoing(small_prompt())));
  EXPECT_TRUE(before->wait_event(soon())) << "signed-in clients stay";
}

// A context from which no TLS stream can be made.
TEST(ListenerTest, KeepsAcceptingAfterConnectionFailure) {
  TestServer server;
  const auto broken = server_tls(server.identity);
  const TlsContext taken(std::move(*broken));
  server.listener->set_tls(broken);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(RawPeer(server.listener->port()).read_to_end().empty());
  // A peer may see its end before the listener counts it.
  const Instant deadline = Clock::now() + 10s;
  while ((server.listener->stats().failed < 3 || server.application.failures().size() < 3) &&
         Clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(server.listener->stats().failed, 3u);
  EXPECT_EQ(server.application.failures().size(), 3u);
  server.listener->set_tls(server_tls(server.identity));
  server.expect_serves();
}

TEST(ListenerTest, ExceptionCostsOnlyItsConnection) {
  TestServer server;
  const auto inside = server.connect();
  const auto unlucky = server.connect();
  server.application.fails_to_handle = true;
  server.application.fails_to_end = true;
  ASSERT_TRUE(unlucky->send(outgoing(small_prompt())));
  const auto ended = server.application.wait_ended(1);
  EXPECT_EQ(ended[0].code, Errc::io);
  EXPECT_EQ(ended[0].message, std::bad_alloc().what());
  ASSERT_TRUE(inside->send(outgoing(small_prompt())));
  EXPECT_TRUE(inside->wait_event(soon())) << "the other client is still served";
  server.expect_serves();
  server.listener->stop(10s);
  EXPECT_EQ(server.listener->stats().open, 0u);
  EXPECT_EQ(server.application.failures().size(), 1u) << "the exception at its end is reported";
}

// The exception comes from a handler that the listener itself posted.
TEST(ListenerTest, SurvivesExceptionOutsideConnections) {
  std::atomic<bool> fails = false;
  ListenerOptions options{.address = "127.0.0.1", .io_thread_count = 1};
  options.protocol.channel.on_sent = [&](ByteView) {
    if (fails) throw std::bad_alloc();
  };
  TestServer server({.listener = options});
  const auto link = server.connect();
  fails = true;
  server.listener->stop(100ms);
  EXPECT_EQ(server.listener->stats().open, 0u);
  EXPECT_EQ(server.application.failures().size(), 1u);
}

TEST(ListenerTest, IgnoresRepliesAfterEnd) {
  TestServer server;
  server.connect().reset();
  server.application.wait_ended(1);
  const ReplyHandle handle = server.application.handles().at(0);
  handle.verdict({.round = 1, .next = 7});
  handle.accept({});
  handle.fail({Errc::io, "too late"});
  server.expect_serves();
}

// Replies from a compute thread race with clients that connect and disconnect.
TEST(ListenerTest, SurvivesRepliesRacingWithDisconnects) {
  TestServer server;
  std::atomic<bool> done = false;
  std::thread compute([&] {
    while (!done) {
      for (const ReplyHandle& handle : server.application.handles()) {
        handle.refuse(1, {Errc::cancelled, "whatever"});
      }
    }
  });
  for (int i = 0; i < 10; ++i) {
    const auto link = server.connect();
    EXPECT_TRUE(link->send(outgoing(small_prompt())));
  }
  done = true;
  compute.join();
  server.expect_serves();
}

TEST(ListenerTest, CountsBytesOfEndedConnections) {
  TestServer server;
  LinkStats client;
  {
    const auto link = server.connect();
    client = link->stats();
  }
  server.application.wait_ended(1);
  while (server.listener->stats().open != 0) std::this_thread::yield();
  EXPECT_GE(server.listener->stats().bytes_in, client.bytes_up);
  EXPECT_GE(server.listener->stats().bytes_out, client.bytes_down);
}

}  // namespace
}  // namespace edgedraft
