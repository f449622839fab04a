#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>

#include "shared/protocol/frame.h"
#include "tests/net/net_support.h"
#include "tests/net/raw_peer.h"

// Malicious peers. Each loses its own connection; the next client is served.
namespace edgedraft {
namespace {

class ListenerAbuseTest : public ::testing::Test {
 protected:
  ~ListenerAbuseTest() override { server_->expect_serves(); }

  // The error of the first connection that ended.
  Error reason() { return server_->application.wait_ended(1)[0]; }

  std::uint16_t port() const { return server_->listener->port(); }

  // Sends Hello and receives Welcome.
  void sign_in(RawTlsPeer& peer) {
    ASSERT_TRUE(peer.shake_hands());
    peer.write(wire::encode(wire::Hello()));
    ASSERT_FALSE(peer.read_some().empty());
  }

  // The error report that reaches the peer, if any.
  static std::optional<wire::ErrorReport> farewell(RawTlsPeer& peer) {
    FrameReader reader(kFramePayloadBytesMax);
    reader.append(peer.read_to_end());
    std::optional<wire::ErrorReport> last;
    for (;;) {
      const auto frame = reader.next();
      if (!frame || !*frame) return last;
      const auto message = wire::decode((*frame)->kind, (*frame)->payload);
      if (message && std::holds_alternative<wire::ErrorReport>(*message)) {
        last = std::get<wire::ErrorReport>(*message);
      }
    }
  }

  // Starts a server with a limit for the peer to reach. The next client must stay within it.
  void serve_with(const std::function<void(ListenerOptions&)>& limit) {
    TestServerOptions options;
    limit(options.listener);
    server_ = std::make_unique<TestServer>(options);
  }

  std::unique_ptr<TestServer> server_ = std::make_unique<TestServer>();
};

TEST_F(ListenerAbuseTest, StalledTlsHandshakeTimesOut) {
  serve_with([](ListenerOptions& options) { options.tls_timeout = 1s; });
  RawPeer peer(port());
  EXPECT_TRUE(peer.read_to_end().empty());
  EXPECT_EQ(reason().code, Errc::timed_out);
}

TEST_F(ListenerAbuseTest, StalledHelloTimesOut) {
  serve_with([](ListenerOptions& options) { options.protocol.channel.handshake_timeout = 1s; });
  RawTlsPeer peer(port(), {});
  ASSERT_TRUE(peer.shake_hands());
  EXPECT_EQ(farewell(peer)->code, Errc::timed_out);
  EXPECT_EQ(reason().code, Errc::timed_out);
}

TEST_F(ListenerAbuseTest, FrameThatNeverEndsTimesOut) {
  serve_with([](ListenerOptions& options) { options.protocol.channel.frame_timeout = 300ms; });
  RawTlsPeer peer(port(), {});
  sign_in(peer);
  const Bytes frame = wire::encode(outgoing(small_prompt()));
  peer.write(ByteView(frame).first(10));
  EXPECT_EQ(farewell(peer)->code, Errc::timed_out);
}

TEST_F(ListenerAbuseTest, AnswersGarbageInsideTls) {
  RawTlsPeer peer(port(), {});
  ASSERT_TRUE(peer.shake_hands());
  peer.write(Bytes(100, std::byte{0xEE}));
  EXPECT_EQ(farewell(peer)->code, Errc::version);
  EXPECT_EQ(reason().code, Errc::version);
}

TEST_F(ListenerAbuseTest, SurvivesRandomBytesInsteadOfTls) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    RawPeer peer(port());
    Bytes garbage(1 + random.below(2000));
    for (std::byte& b : garbage) b = static_cast<std::byte>(random.below(256));
    peer.write(garbage);
    peer.finish_writing();
    peer.read_to_end();
  }
  server_->application.wait_ended(20);
}

TEST_F(ListenerAbuseTest, RejectsOversizeFrameByHeader) {
  RawTlsPeer peer(port(), {});
  ASSERT_TRUE(peer.shake_hands());
  Bytes header(kFrameHeaderBytes);
  encode_frame_header({.kind = 1, .payload_bytes = 0xFFFFFFFF},
                      std::span(header).first<kFrameHeaderBytes>());
  peer.write(header);
  EXPECT_EQ(farewell(peer)->code, Errc::frame_too_large);
}

TEST_F(ListenerAbuseTest, RejectsReplayedRound) {
  RawTlsPeer peer(port(), {});
  sign_in(peer);
  wire::Prefill prefill = small_prompt();
  prefill.round = 1;
  peer.write(wire::encode(outgoing(prefill)));
  ASSERT_FALSE(peer.read_some().empty());
  peer.write(wire::encode(outgoing(prefill)));
  EXPECT_EQ(farewell(peer)->code, Errc::protocol);
}

TEST_F(ListenerAbuseTest, SurvivesFinOrResetInsideFrame) {
  const Bytes frame = wire::encode(outgoing(small_prompt()));
  for (const auto& end : {&RawPeer::finish_writing, &RawPeer::reset}) {
    server_ = std::make_unique<TestServer>();
    RawTlsPeer peer(port(), {});
    sign_in(peer);
    peer.write(ByteView(frame).first(frame.size() - 1));
    (peer.tcp().*end)();
    EXPECT_EQ(reason().code, Errc::link_down);
    server_->expect_serves();
  }
}

TEST_F(ListenerAbuseTest, SurvivesResetInTlsHandshake) {
  RawPeer peer(port());
  peer.write("\x16\x03\x01");
  peer.reset();
  EXPECT_EQ(reason().code, Errc::link_down);
}

TEST_F(ListenerAbuseTest, ServesOneByteWrites) {
  RawTlsPeer peer(port(), {});
  sign_in(peer);
  wire::Prefill prefill = small_prompt();
  prefill.round = 1;
  const Bytes frame = wire::encode(outgoing(prefill));
  for (std::size_t i = 0; i < frame.size(); ++i) peer.write(ByteView(frame).subspan(i, 1));
  const Bytes answer = peer.read_some();
  ASSERT_GE(answer.size(), kFrameHeaderBytes);
  EXPECT_EQ(decode_frame_header(answer, kFramePayloadBytesMax)->kind,
            static_cast<std::uint16_t>(wire::Kind::verdict));
}

TEST_F(ListenerAbuseTest, DropsPeerThatNeverReads) {
  serve_with([](ListenerOptions& options) { options.write_stall_timeout = 200ms; });
  RawTlsPeer peer(port(), {});
  sign_in(peer);
  // Pongs pile up until both sides' buffers are full.
  Bytes pings;
  while (pings.size() < 16'000) {
    const Bytes ping = wire::encode(wire::Ping{1});
    pings.insert(pings.end(), ping.begin(), ping.end());
  }
  while (server_->listener->stats().open == 1) peer.write(pings);
  EXPECT_EQ(reason().code, Errc::timed_out);
}

// A client that has signed in is served while strangers push each other out.
TEST_F(ListenerAbuseTest, TenThousandConnectionsLeaveSignedInClientUnaffected) {
  constexpr std::size_t kConnections = 10'000;
  constexpr std::size_t kOpenAtOnce = 400;  // below the usual limit on open files
  const auto inside = server_->connect();
  std::deque<RawPeer> flood;
  for (std::size_t i = 0; i < kConnections; ++i) {
    flood.emplace_back(port());
    if (flood.size() > kOpenAtOnce) flood.pop_front();
    if (i % 1000 != 0) continue;
    ASSERT_TRUE(inside->send(outgoing(small_prompt()))) << i;
    ASSERT_TRUE(inside->wait_event(soon())) << i;
    EXPECT_LE(server_->listener->stats().open, ListenerOptions().strangers_per_address_max + 2);
  }
}

TEST_F(ListenerAbuseTest, SurvivesManyConnectsAndResets) {
  for (int i = 0; i < 200; ++i) RawPeer(port()).reset();
  server_->application.wait_ended(200);
}

}  // namespace
}  // namespace edgedraft
