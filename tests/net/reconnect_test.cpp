#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shared/net/client_link.h"
#include "tests/net/net_support.h"
#include "tests/net/raw_peer.h"

// Reconnects of a link, and events that happened while it was down.
namespace edgedraft {
namespace {

bool hears_welcome(ClientLink& link) {
  const auto event = link.wait_event(soon());
  return event && std::holds_alternative<Welcomed>(*event);
}

// The request refers to a session that the next connection does not have. Its refusal would be
// attributed to the sender's next request.
TEST(ReconnectTest, NeverSendsRequestsOfLostConnectionOnNextOne) {
  TestServer server;
  const auto link = server.connect();
  ASSERT_TRUE(link->send(outgoing(lockstep_prompt())));
  ASSERT_TRUE(link->wait_event(soon()));
  server.application.handles().at(0).fail({Errc::refused, "come again"});
  const Instant end = soon();
  while (link->stats().reconnects == 0 && Clock::now() < end) std::this_thread::sleep_for(1ms);
  ASSERT_EQ(link->state(), LinkState::online);

  EXPECT_EQ(link->send(step(4)).error().code, Errc::link_down);
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::link_down);
  EXPECT_EQ(link->send(step(4)).error().code, Errc::link_down)
      << "the new connection is not reported yet";
  EXPECT_TRUE(hears_welcome(*link));
  ASSERT_TRUE(link->send(outgoing(small_prompt())));
  const auto event = link->wait_event(soon());
  EXPECT_TRUE(event && std::holds_alternative<VerdictReceived>(*event));
}

TEST(ReconnectTest, SkipsUselessAddressAndStaysWithGoodOne) {
  TestServer server;
  std::atomic<int> answered = 0;
  const RawServer useless([&answered](RawPeer& peer) {
    ++answered;
    peer.read_to_end();
  });
  ClientLinkOptions options = server.client_options();
  options.host = "server.invalid";
  options.resolver = [&](const std::string&, const std::string&, boost::system::error_code& error) {
    Endpoints both = resolve_by_system("127.0.0.1", std::to_string(useless.port()), error);
    const std::string good = std::to_string(server.listener->port());
    for (const auto& endpoint : resolve_by_system("127.0.0.1", good, error)) {
      both.push_back(endpoint);
    }
    return both;
  };
  options.connect_timeout = 400ms;
  const auto link = ClientLink::open(options).value();
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::link_down);
  ASSERT_TRUE(hears_welcome(*link));
  EXPECT_GE(answered, 1);
  const int before = answered;
  server.application.handles().at(0).fail({Errc::refused, "come again"});
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::link_down);
  EXPECT_TRUE(hears_welcome(*link));
  EXPECT_EQ(answered, before);
}

TEST(ReconnectTest, ShowsIpv6AddressInBrackets) {
  const auto event = TestServer::first_event({.host = "::1", .port = "1", .jitter_seed = 1});
  ASSERT_FALSE(event);
  EXPECT_NE(event.error().message.find(" [::1]:1"), std::string::npos) << event.error().message;
}

// Welcomes every client and disconnects it at once, or after a verdict.
class RevolvingDoor final : public ServerApplication {
 public:
  explicit RevolvingDoor(bool answers = false, std::string replica = {})
      : answers_(answers), replica_(std::move(replica)) {}

  void handle(const ReplyHandle& reply, const PeerInfo&, ServerEvent event) override {
    if (const auto* const prefill = std::get_if<PrefillRequested>(&event)) {
      reply.verdict({.round = prefill->request.round, .next = 7});
      reply.fail({Errc::refused, "come again"});
    }
    if (!std::holds_alternative<HelloReceived>(event)) return;
    {
      const std::scoped_lock lock(mutex_);
      times_.push_back(Clock::now());
    }
    changed_.notify_all();
    reply.accept({.model = "toy", .context_count = 4096, .replica = replica_});
    if (!answers_) reply.fail({Errc::refused, "come again"});
  }
  void ended(std::uint64_t, const PeerInfo&, const Error&, const TrafficStats&) override {}

  // Times of the first `count` connections.
  std::vector<Instant> wait_times(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, soon(), [&] { return times_.size() >= count; });
    return times_;
  }

 private:
  bool answers_;
  std::string replica_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Instant> times_;
};

// Each reconnect costs a handshake and a wasted prompt.
TEST(ReconnectTest, BacksOffIfServerDisconnectsAfterWelcome) {
  RevolvingDoor door;
  const ServerOf server(door);
  ClientLinkOptions options = server.client_options();
  options.back_off.max = 1h;
  const auto link = ClientLink::open(std::move(options)).value();
  const auto times = door.wait_times(10);
  ASSERT_GE(times.size(), 10u);
  // Half of 1, 2, ... 256 ms, but none below 1 ms.
  EXPECT_GE(times[9] - times[0], 256ms);
}

TEST(ReconnectTest, BacksOffIfServerDisconnectsAfterVerdict) {
  RevolvingDoor door(/*answers=*/true);
  const ServerOf server(door);
  ClientLinkOptions options = server.client_options();
  options.back_off = {.min = 20ms, .max = 1h};
  const auto link = ClientLink::open(std::move(options)).value();
  std::size_t verdicts = 0;
  for (const Instant end = soon(); verdicts < 6 && Clock::now() < end;) {
    const auto event = link->wait_event(end);
    if (!event) continue;  // the link is down
    if (std::holds_alternative<Welcomed>(*event)) {
      ASSERT_TRUE(link->send(outgoing(small_prompt())));
    }
    verdicts += std::holds_alternative<VerdictReceived>(*event) ? 1 : 0;
  }
  const auto times = door.wait_times(6);
  ASSERT_GE(times.size(), 6u);
  // Half of 20, 40, ... 320 ms.
  EXPECT_GE(times[5] - times[0], 310ms);
}

TEST(ReconnectTest, TriesAnotherReplicaAtOnceButOnlyOnce) {
  RevolvingDoor door(/*answers=*/true, "r1");
  const ServerOf server(door);
  ClientLinkOptions options = server.client_options();
  options.back_off = {.min = 300ms, .max = 300ms};
  const auto link = ClientLink::open(std::move(options)).value();
  Instant lost = Instant::max();
  for (int welcomes = 0; welcomes < 3;) {
    const auto event = link->wait_event(soon());
    if (!event) {
      ASSERT_NE(event.error().code, Errc::timed_out);
      lost = Clock::now();
      continue;
    }
    if (!std::holds_alternative<Welcomed>(*event)) continue;
    ++welcomes;
    EXPECT_TRUE(welcomes < 3 || Clock::now() - lost >= 250ms);
    ASSERT_TRUE(link->send(outgoing(small_prompt())));
  }
  const auto times = door.wait_times(3);
  EXPECT_LT(times[1] - times[0], 250ms);
}

// Accepts a single token.
class Gatekeeper final : public ServerApplication {
 public:
  void handle(const ReplyHandle& reply, const PeerInfo&, ServerEvent event) override {
    const auto* const hello = std::get_if<HelloReceived>(&event);
    if (hello == nullptr) return;
    if (hello->hello.token == "new") {
      reply.accept({.model = "toy", .context_count = 4096});
    } else {
      reply.fail({Errc::unauthorized, "not with " + hello->hello.token});
    }
  }
  void ended(std::uint64_t, const PeerInfo&, const Error&, const TrafficStats&) override {}
};

TEST(ReconnectTest, TryAgainUsesCurrentToken) {
  Gatekeeper gatekeeper;
  const ServerOf server(gatekeeper);
  std::string token = "older";
  ClientLinkOptions options = server.client_options();
  options.protocol.hello.token = "old";
  options.renew_token = [&token] { return token; };
  const auto link = ClientLink::open(std::move(options)).value();
  EXPECT_EQ(link->wait_event(soon()).error().message, "not with old");
  link->try_again();
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::link_down);
  EXPECT_EQ(link->wait_event(soon()).error().message, "not with older");
  token = "new";
  link->try_again();
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::link_down);
  EXPECT_TRUE(hears_welcome(*link));
}

}  // namespace
}  // namespace edgedraft
