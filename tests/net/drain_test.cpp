#include <gtest/gtest.h>

#include <thread>

#include "tests/net/net_support.h"
#include "tests/net/raw_peer.h"
#include "tests/support/expect.h"

// Listener::drain: a client with an unfinished answer may finish it; all others are disconnected.
namespace edgedraft {
namespace {

TestServerOptions patient() {
  TestServerOptions options;
  options.listener.drafting_time_max = 1h;
  return options;
}

void expect_goodbye(ClientLink& link) {
  const auto event = link.wait_event(soon());
  ASSERT_FALSE(event);
  EXPECT_TRUE(contains(event.error().message, "shutting down"));
}

void wait_until_closed(std::uint16_t port) {
  try {
    for (;;) RawPeer(port).reset();
  } catch (const std::runtime_error&) {
    // The port has no listener now.
  }
}

TEST(DrainTest, LetsRunningAnswerFinish) {
  TestServer server(patient());
  auto link = server.connect();
  ASSERT_TRUE(link->send(outgoing(lockstep_prompt())));
  ASSERT_TRUE(link->wait_event(soon()));
  std::thread draining([&] { server.listener->drain(1h); });
  wait_until_closed(server.listener->port());
  for (std::uint32_t length = 4; length < 8; ++length) {
    ASSERT_TRUE(link->send(step(length)));
    const auto event = link->wait_event(soon());
    ASSERT_TRUE(event) << event.error().message;
    EXPECT_EQ(std::get<VerdictReceived>(*event).verdict.next, 8u);
  }
  link.reset();  // finished
  draining.join();
  EXPECT_EQ(server.listener->stats().open, 0u);
}

TEST(DrainTest, DisconnectsIdleClientAtOnce) {
  TestServer server(patient());
  const auto link = server.connect();
  server.listener->drain(1h);
  expect_goodbye(*link);
}

TEST(DrainTest, DisconnectsAfterAnswerEnded) {
  TestServer server(patient());
  server.application.ending = wire::Ending::end_token;
  const auto link = server.connect();
  ASSERT_TRUE(link->send(outgoing(small_prompt())));
  ASSERT_TRUE(link->wait_event(soon()));
  server.listener->drain(1h);
  expect_goodbye(*link);
}

TEST(DrainTest, DisconnectsClientThatStopsDrafting) {
  TestServerOptions options;
  options.listener.drafting_time_max = 1ms;
  TestServer server(options);
  const auto link = server.connect();
  ASSERT_TRUE(link->send(outgoing(small_prompt())));
  ASSERT_TRUE(link->wait_event(soon()));
  server.listener->drain(1h);
  expect_goodbye(*link);
}

// Its run has used up its credit.
TEST(DrainTest, DisconnectsClientWithoutCredit) {
  TestServerOptions options;
  options.listener.drafting_time_max = 1ms;
  TestServer server(options);
  const auto link = server.connect();
  wire::Prefill prompt = small_prompt();
  prompt.run.credit = static_cast<std::uint32_t>(prompt.tokens.size()) + 1;
  ASSERT_TRUE(link->send(outgoing(prompt)));
  ASSERT_TRUE(link->wait_event(soon()));
  server.listener->drain(20s);
  expect_goodbye(*link);
}

TEST(DrainTest, LeavesRemainingClientsToStopAfterTimeout) {
  TestServer server(patient());
  const auto link = server.connect();
  ASSERT_TRUE(link->send(outgoing(small_prompt())));
  ASSERT_TRUE(link->wait_event(soon()));
  server.listener->drain(1ms);
  EXPECT_EQ(server.listener->stats().open, 1u);
  server.listener->stop(10s);
  expect_goodbye(*link);
}

TEST(ListenerStatsTest, CountsBytesOfOpenConnections) {
  const TestServer server;
  const auto link = server.connect();
  ASSERT_TRUE(link->send(outgoing(small_prompt())));
  ASSERT_TRUE(link->wait_event(soon()));
  const ListenerStats stats = server.listener->stats();
  EXPECT_EQ(stats.open, 1u);
  EXPECT_GT(stats.bytes_in, 0u);
  EXPECT_GT(stats.bytes_out, 0u);
}

}  // namespace
}  // namespace edgedraft
