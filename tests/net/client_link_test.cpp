#include "shared/net/client_link.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/net/net_support.h"
#include "tests/net/raw_peer.h"
#include "tests/support/expect.h"

namespace edgedraft {
namespace {

using Tokens = std::vector<std::uint32_t>;

template <class Event>
Event expect_event(ClientLink& link) {
  auto event = link.wait_event(soon());
  if (!event) {
    ADD_FAILURE() << event.error().message;
    return {};
  }
  if (!std::holds_alternative<Event>(*event)) {
    ADD_FAILURE() << "unexpected event";
    return {};
  }
  return std::get<Event>(*std::move(event));
}

TEST(ClientLinkTest, SignsInAndReceivesAnswers) {
  const TestServer server;
  const auto link = ClientLink::open(server.client_options()).value();
  EXPECT_EQ(expect_event<Welcomed>(*link).welcome.model, "toy");
  EXPECT_EQ(link->state(), LinkState::online);
  ASSERT_TRUE(link->send(outgoing(lockstep_prompt())));
  EXPECT_EQ(expect_event<VerdictReceived>(*link).verdict.length, 4u);
  ASSERT_TRUE(link->send(step(4)));
  EXPECT_EQ(expect_event<VerdictReceived>(*link).verdict.length, 5u);
}

TEST(ClientLinkTest, PastDeadlineOnlyPolls) {
  const TestServer server;
  const auto link = server.connect();
  EXPECT_EQ(link->wait_event(Clock::now() - 1h).error().code, Errc::timed_out);
  EXPECT_EQ(link->wait_event(Instant::min()).error().code, Errc::timed_out);
}

TEST(ClientLinkTest, SocketBytesExceedFramesByTlsOverhead) {
  const TestServer server;
  const auto link = server.connect();
  ASSERT_TRUE(link->send(outgoing(lockstep_prompt())));
  expect_event<VerdictReceived>(*link);
  const LinkStats before = link->stats();
  ASSERT_TRUE(link->send(step(4)));
  expect_event<VerdictReceived>(*link);
  const LinkStats after = link->stats();
  const auto framed_up = after.traffic.framed_bytes_out - before.traffic.framed_bytes_out;
  const auto framed_down = after.traffic.framed_bytes_in - before.traffic.framed_bytes_in;
  // One TLS record each way: five bytes of header, one of type, sixteen of tag.
  EXPECT_EQ(after.bytes_up - before.bytes_up, framed_up + 22);
  EXPECT_EQ(after.bytes_down - before.bytes_down, framed_down + 22);
  EXPECT_GT(before.bytes_down, 500u) << "the handshake counts";
}

TEST(ClientLinkTest, ReportsLocalRefusalAsEvent) {
  const TestServer server;
  const auto link = server.connect();
  ASSERT_TRUE(link->send(outgoing(wire::Prefill{.base_length = 4, .tokens = {1}})));
  EXPECT_EQ(expect_event<RequestRefused>(*link).error.code, Errc::protocol);
}

TEST(ClientLinkTest, ReportsUnreachableServerOnceAndRetries) {
  std::optional<TestServer> server;
  server.emplace();
  ClientLinkOptions options = server->client_options();
  server->listener.reset();  // the port is free again
  const auto link = ClientLink::open(options).value();
  EXPECT_TRUE(fails_with(link->wait_event(soon()), Errc::link_down, "127.0.0.1:" + options.port));
  EXPECT_EQ(link->state(), LinkState::connecting);
  EXPECT_EQ(link->send(outgoing(small_prompt())).error().code, Errc::link_down);
  EXPECT_EQ(link->wait_event(Clock::now() + 100ms).error().code, Errc::timed_out)
      << "reported once";
}

TEST(ClientLinkTest, ReconnectsWhenServerReturns) {
  TestServer server;
  const auto link = server.connect();
  const std::uint16_t port = server.listener->port();
  server.listener.reset();
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::link_down);

  server.listen_again(port);
  expect_event<Welcomed>(*link);
  EXPECT_EQ(link->stats().reconnects, 1u);
  ASSERT_TRUE(link->send(outgoing(wire::Resume{.verified_length = 4})));
  EXPECT_EQ(expect_event<RequestRefused>(*link).error.code, Errc::session_unknown);
  ASSERT_TRUE(link->send(outgoing(small_prompt())));
  expect_event<VerdictReceived>(*link);
}

// A captive portal, a proxy or a newly installed server says nothing about the previous server.
TEST(ClientLinkTest, ReportsForeignListenerAndKeepsRetrying) {
  TestServer server;
  std::atomic<int> failures = 0;
  ClientLinkOptions options = server.client_options();
  options.on_failure = [&failures](const Error&) { ++failures; };
  const auto link = TestServer::connect(std::move(options));
  const std::uint16_t port = server.listener->port();
  server.listener.reset();
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::link_down);
  {
    const RawServer page(
        [](RawPeer& peer) {
          peer.read_some();
          peer.write("HTTP/1.1 302 Found\r\n\r\n");
        },
        port);
    EXPECT_TRUE(fails_with(link->wait_event(soon()), Errc::link_down, "does not speak TLS"));
  }
  {
    const TestServer other({.listener = {.address = "127.0.0.1", .port = port}});
    const Instant end = soon();
    while (other.listener->stats().accepted < 2 && Clock::now() < end) {
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_GE(other.listener->stats().accepted, 2u) << "a server with another key is retried";
  }
  EXPECT_EQ(link->state(), LinkState::connecting);
  EXPECT_EQ(failures, 1) << "once per outage";

  server.listen_again(port);
  expect_event<Welcomed>(*link);
  ASSERT_TRUE(link->send(outgoing(small_prompt())));
  expect_event<VerdictReceived>(*link);
}

TEST(ClientLinkTest, StaysOfflineWhileUnplugged) {
  TestServer server;
  LinkPlug plug;
  auto options = server.client_options();
  options.plug = &plug;
  const auto link = TestServer::connect(std::move(options));
  plug.put(false);
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::link_down);
  EXPECT_EQ(link->state(), LinkState::connecting);
  EXPECT_EQ(link->wait_event(Clock::now() + 300ms).error().code, Errc::timed_out);
  plug.put(true);
  expect_event<Welcomed>(*link);
  EXPECT_EQ(link->stats().reconnects, 1u);
  // Repeated, so that some disconnects happen during a handshake.
  for (int i = 0; i < 50; ++i) {
    plug.put(i % 2 == 1);
    std::this_thread::sleep_for(std::chrono::microseconds(i * 100));
  }
  plug.put(true);
  const Instant until = soon();
  while (link->state() != LinkState::online && Clock::now() < until) {
    (void)link->wait_event(Clock::now() + 10ms);
  }
  EXPECT_EQ(link->state(), LinkState::online);
}

// An unplugged network is not waited for.
TEST(ClientLinkTest, EndsAtOnceWhileUnplugged) {
  TestServer server;
  LinkPlug plug;
  plug.put(false);
  auto options = server.client_options();
  options.plug = &plug;
  auto link = ClientLink::open(std::move(options)).value();
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::link_down);
  const Instant before = Clock::now();
  link.reset();
  EXPECT_LT(Clock::now() - before, 5s);
  plug.put(true);
}

// While the grid is held, messages leave at its steps, in order, and events are reported at its
// steps.
TEST(ClientLinkTest, SendsAndReportsOnGridStepsWhileHeld) {
  const TestServer server;
  SendGrid grid;
  auto options = server.client_options();
  options.grid = &grid;
  const auto link = TestServer::connect(std::move(options));
  const auto answered = [&](TargetRequest request) {
    const Instant asked = Clock::now();
    EXPECT_TRUE(link->send(std::move(request)));
    const LinkTimes times = expect_event<VerdictReceived>(*link).times.value();
    return std::array{asked, times.sent, times.received, Clock::now()};
  };
  const auto step_of = [](Instant t) { return t.time_since_epoch() / SendGrid::kStep; };
  answered(outgoing(lockstep_prompt()));
  {
    const SendGrid::Hold hold(grid);
    for (std::uint32_t length = 4; length < 12; ++length) {
      const auto [asked, sent, received, told] = answered(step(length));
      EXPECT_GE(step_of(sent), step_of(asked) + 1);
      EXPECT_GE(step_of(told), step_of(received) + 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(length));
    }
  }
  // Nor does the end of the hold show in the timing.
  const Instant now = Clock::now();
  EXPECT_GT(grid.release(now), now);
  EXPECT_EQ(grid.release(now + SendGrid::kEndStep), now + SendGrid::kEndStep);
  // A cancelled answer is dropped if it was not reported yet.
  ASSERT_TRUE(link->send(step(12)));
  std::this_thread::sleep_for(SendGrid::kStep + 5ms);
  ASSERT_TRUE(link->send(CancelRequest{}));
  ASSERT_TRUE(link->send(outgoing(wire::Prefill{.tokens = {1, 2}})));
  EXPECT_EQ(expect_event<VerdictReceived>(*link).verdict.length, 3u);
}

TEST(ClientLinkTest, SecondHandshakeResumesFirst) {
  TestServer server;
  const auto link = server.connect();
  EXPECT_EQ(link->stats().resumed_handshakes, 0u);
  server.application.handles().at(0).fail({Errc::refused, "come again"});
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::link_down);
  expect_event<Welcomed>(*link);
  EXPECT_EQ(link->stats().resumed_handshakes, 1u);
}

// A listener may wait for a lock that another thread holds while it calls the link.
TEST(ClientLinkTest, MayBeCalledDuringEventNotification) {
  const TestServer server;
  std::latch telling(1);
  std::latch told(1);
  ClientLinkOptions options = server.client_options();
  options.on_event = [&, first = true]() mutable {
    if (!std::exchange(first, false)) return;
    telling.count_down();
    told.wait();
  };
  const auto link = ClientLink::open(std::move(options)).value();
  telling.wait();
  const auto closed = std::async(std::launch::async, [&] { link->close(); });
  EXPECT_EQ(closed.wait_for(10s), std::future_status::ready);
  told.count_down();
}

// An idle link may break and reconnect for days.
TEST(ClientLinkTest, ReportsOnlyLastOfUnreadConnections) {
  TestServer server;
  const auto link = server.connect();
  for (std::uint32_t i = 0; i < 5; ++i) {
    server.application.handles().at(i).fail({Errc::refused, "come again"});
    const Instant end = soon();
    while (link->stats().reconnects == i && Clock::now() < end) std::this_thread::sleep_for(1ms);
    ASSERT_EQ(link->stats().reconnects, i + 1);
  }
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::link_down);
  expect_event<Welcomed>(*link);
  EXPECT_EQ(link->wait_event(Instant::min()).error().code, Errc::timed_out);
  ASSERT_TRUE(link->send(outgoing(small_prompt())));
  expect_event<VerdictReceived>(*link);
}

TEST(ClientLinkTest, PermanentErrorClosesLink) {
  TestServer server;
  server.application.rejection = Error{Errc::unauthorized, "wrong token"};
  const auto link = ClientLink::open(server.client_options()).value();
  for (int i = 0; i < 3; ++i) {
    const auto event = link->wait_event(soon());
    ASSERT_TRUE(fails_with(event, Errc::unauthorized));
    EXPECT_EQ(event.error().message, "wrong token");
  }
  EXPECT_EQ(link->state(), LinkState::closed);
}

TEST(ClientLinkTest, TryAgainReopensLinkAfterPermanentError) {
  TestServer server;
  server.application.rejection = Error{Errc::unauthorized, "wrong token"};
  const auto link = ClientLink::open(server.client_options()).value();
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::unauthorized);
  link->try_again();
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::link_down);
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::unauthorized) << "the cause persists";

  const std::uint16_t port = server.listener->port();
  server.listener.reset();
  server.application.rejection.reset();
  server.listen_again(port);
  EXPECT_EQ(link->state(), LinkState::closed);
  link->try_again();
  const auto told = link->wait_event(soon());
  ASSERT_TRUE(fails_with(told, Errc::link_down));
  EXPECT_EQ(told.error().message, "wrong token");
  expect_event<Welcomed>(*link);
  ASSERT_TRUE(link->send(outgoing(small_prompt())));
  expect_event<VerdictReceived>(*link);

  link->close();
  link->try_again();
  EXPECT_EQ(link->state(), LinkState::closed) << "closed by the caller";
}

TEST(ClientLinkTest, RetriesFullServer) {
  TestServer server;
  server.application.rejection = Error{Errc::refused, "full"};
  const auto link = ClientLink::open(server.client_options()).value();
  const auto event = link->wait_event(soon());
  ASSERT_TRUE(fails_with(event, Errc::link_down));
  EXPECT_EQ(event.error().message, "full");
  server.application.wait_ended(3);
}

TEST(ClientLinkTest, DropsAnswersToCancelledRequests) {
  const TestServer server;
  const auto link = server.connect();
  for (int turn = 0; turn < 200; ++turn) {
    SCOPED_TRACE(turn);
    const auto received = link->stats().traffic.framed_bytes_in;
    ASSERT_TRUE(link->send(outgoing(small_prompt())));
    // In every second turn the verdict is already waiting; otherwise it meets the Cancel on the
    // way.
    const Instant end = soon();
    while (turn % 2 == 0 && link->stats().traffic.framed_bytes_in == received &&
           Clock::now() < end) {
    }
    ASSERT_TRUE(link->send(CancelRequest{}));
    ASSERT_TRUE(link->send(outgoing(wire::Prefill{.tokens = {1, 2}})));
    ASSERT_EQ(expect_event<VerdictReceived>(*link).verdict.length, 3u);
  }
}

TEST(ClientLinkTest, CloseIsPermanent) {
  TestServer server;
  const auto link = server.connect();
  link->close();
  EXPECT_EQ(link->state(), LinkState::closed);
  EXPECT_EQ(link->wait_event(soon()).error().code, Errc::cancelled);
  EXPECT_EQ(link->send(outgoing(small_prompt())).error().code, Errc::link_down);
  EXPECT_TRUE(contains(server.application.wait_ended(1)[0].message, "closed by the client"));
}

// A resolver without a network that blocks until it is released.
class StuckResolver {
 public:
  ~StuckResolver() {
    const std::scoped_lock lock(state_->mutex);
    state_->let_go = true;
    state_->changed.notify_all();
  }
  std::unique_ptr<ClientLink> open_link(Duration connect_timeout) {
    const auto resolver = [state = state_](const std::string&, const std::string&,
                                           boost::system::error_code& error) {
      std::unique_lock lock(state->mutex);
      ++state->asked;
      state->changed.notify_all();
      state->changed.wait(lock, [&] { return state->let_go; });
      error = boost::asio::error::host_not_found;
      return Endpoints();
    };
    return ClientLink::open({.host = "server.invalid",
                             .port = "7400",
                             .resolver = resolver,
                             .connect_timeout = connect_timeout,
                             .jitter_seed = 1})
        .value();
  }
  void wait_until_asked() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->asked > 0; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int asked = 0;
    bool let_go = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

TEST(ClientLinkTest, DestructionDoesNotWaitForNameResolution) {
  StuckResolver stuck;
  const auto link = stuck.open_link(1h);
  stuck.wait_until_asked();
}

TEST(ClientLinkTest, SlowNameResolutionIsAnOutage) {
  StuckResolver stuck;
  const auto link = stuck.open_link(50ms);
  const auto event = link->wait_event(soon());
  ASSERT_TRUE(fails_with(event, Errc::link_down, "server.invalid:7400 in time"));
}

// Finds no host of that name.
Endpoints no_host(const std::string&, const std::string&, boost::system::error_code& error) {
  error = boost::asio::error::host_not_found;
  return {};
}

TEST(ClientLinkTest, ResolvesNameOrReportsUnknownHost) {
  TestServer server;
  ClientLinkOptions options = server.client_options();
  options.host = "localhost";
  options.resolver = [](const std::string& host, const std::string& port,
                        boost::system::error_code& error) {
    EXPECT_EQ(host, "localhost");
    return resolve_by_system("127.0.0.1", port, error);
  };
  EXPECT_TRUE(ClientLink::open(options).value()->wait_event(soon()));
  options.resolver = no_host;
  const auto event = ClientLink::open(options).value()->wait_event(soon());
  ASSERT_TRUE(fails_with(event, Errc::unknown_host, "'localhost' was not found"));
}

// Before that, a misspelt name is more likely.
TEST(ClientLinkTest, UnknownNameIsAnOutageAfterFirstContact) {
  TestServer server;
  ServerContact contact;
  EXPECT_EQ(contact.state(), ServerContact::State::unknown);
  ClientLinkOptions options = server.client_options();
  options.contact = &contact;
  {
    const auto met = ClientLink::open(options).value();
    EXPECT_TRUE(met->wait_event(soon()));
    EXPECT_EQ(contact.state(), ServerContact::State::reachable);
  }
  options.host = "server.invalid";
  options.resolver = no_host;
  EXPECT_TRUE(fails_with(ClientLink::open(options).value()->wait_event(soon()), Errc::link_down));
  EXPECT_EQ(contact.state(), ServerContact::State::away);
}

TEST(ClientLinkTest, DestructionDoesNotWaitForBackOff) {
  ClientLinkOptions options{
      .host = "127.0.0.1", .port = "1", .back_off = {.min = 1h, .max = 1h}, .jitter_seed = 1};
  const Instant start = Clock::now();
  {
    const auto link = ClientLink::open(options).value();
    EXPECT_FALSE(link->wait_event(soon()));
  }
  EXPECT_LT(Clock::now() - start, 10s);
}

TEST(ClientLinkTest, ReceivesPromptActivations) {
  TestServer server;
  server.application.scale_groups = {64};
  const ActivationLayout layout({64});
  const auto link = server.connect();
  ASSERT_TRUE(link->send(outgoing(small_prompt())));
  expect_event<VerdictReceived>(*link);
  const std::vector<float> rows(3 * 64, 2.0f);
  server.application.handles().at(0).activations(
      compress_activations(1, 0, 3, quantize_rows(layout, rows), wire::Codec::gzip));
  const auto event = expect_event<ActivationsReceived>(*link);
  EXPECT_TRUE(event.complete);
  ASSERT_EQ(event.rows.size(), rows.size());
  EXPECT_NEAR(event.rows[0], 2.0f, 0.01f);
}

// Signs clients in and then stops reading.
class BusyApplication final : public ServerApplication {
 public:
  void handle(const ReplyHandle& reply, const PeerInfo&, ServerEvent event) override {
    if (std::holds_alternative<HelloReceived>(event)) {
      reply.accept({.model = "toy", .context_count = kContextCountMax});
    } else {
      free_.wait();
    }
  }
  void ended(std::uint64_t, const PeerInfo&, const Error&, const TrafficStats&) override {}
  void read_again() { free_.count_down(); }

 private:
  std::latch free_{1};
};

TEST(ClientLinkTest, IsBackedUpUntilServerReadsAgain) {
  BusyApplication application;
  const ServerOf server(application);
  const auto link = server.connect();
  EXPECT_FALSE(link->backed_up());
  // The system's buffers take some megabytes before back-pressure shows.
  const wire::OutgoingPrefill text = outgoing(wire::Prefill{.tokens = Tokens(4000, 1)});
  const auto is_backed_up = [&] {
    const Instant end = Clock::now() + 100ms;
    while (link->backed_up() && Clock::now() < end) std::this_thread::sleep_for(1ms);
    return link->backed_up();
  };
  int sent = 0;
  for (; sent < 4000 && !is_backed_up(); ++sent) {
    ASSERT_TRUE(link->send(text));
    ASSERT_TRUE(link->send(CancelRequest{}));
  }
  EXPECT_TRUE(link->backed_up()) << "after " << sent << " prompts";
  application.read_again();
  const Instant end = soon();
  while (link->backed_up() && Clock::now() < end) std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(link->backed_up());
}

}  // namespace
}  // namespace edgedraft
