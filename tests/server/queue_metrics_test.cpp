#include <gtest/gtest.h>

#include <thread>

#include "server/metrics/pages.h"
#include "tests/protocol/support.h"
#include "tests/server/held_scheduler.h"
#include "tests/server/toy_session.h"
#include "tests/support/metrics_reading.h"

namespace edgedraft::server {
namespace {

using namespace std::chrono_literals;
using testing::AwaitedAnswer;

class QueueMetricsTest : public testing::HeldSchedulerTest {
 protected:
  auto samples() { return testing::read_metrics(render_metrics(*metrics_, {}, "1")); }
  Client client(std::uint64_t connection_id) {
    answers_.push_back(std::make_shared<AwaitedAnswer>());
    return testing::client_of(connection_id, answers_.back());
  }
  // On a new connection.
  void ask() {
    scheduler_.post(client(answers_.size() + 1), wire::Prefill{.round = 1, .tokens = {5, 6}});
  }

  // After the running request, with a client that holds no place.
  void expect_room_for_two() {
    EXPECT_EQ(samples()["num_requests_waiting"], 0);
    ask();
    ask();
    EXPECT_EQ(samples()["requests_refused_total{reason=\"queue_full\"}"], 0);
    pass_.end();
    EXPECT_FALSE(answers_[2]->wait());
    EXPECT_FALSE(answers_[3]->wait());
  }

  std::vector<std::shared_ptr<AwaitedAnswer>> answers_;
};

TEST_F(QueueMetricsTest, CountRunningWaitingAndRefusedRequests) {
  ask();
  pass_.wait_begun();
  ask();
  ask();
  auto s = samples();
  EXPECT_EQ(s["num_requests_running"], 1);
  EXPECT_EQ(s["num_requests_waiting"], 2);
  ask();
  EXPECT_NE(answers_[3]->wait().value().message.find("overloaded"), std::string::npos);
  EXPECT_EQ(samples()["requests_refused_total{reason=\"queue_full\"}"], 1);

  pass_.end();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(answers_[i]->wait());
  // The last answer is sent just before the thread updates the metrics.
  while (metrics_->requests_open.value() > 0) std::this_thread::yield();
  s = samples();
  EXPECT_EQ(s["num_requests_running"], 0);
  EXPECT_EQ(s["num_requests_waiting"], 0);
  EXPECT_EQ(s["round_seconds_count{phase=\"queue\"}"], 3);
}

// Sends and cancels requests as fast as possible during a slow pass.
TEST_F(QueueMetricsTest, CancelledRequestsHoldNoQueuePlace) {
  ask();
  pass_.wait_begun();
  const Client fickle = client(100);
  for (std::uint32_t round = 1; round <= 1000; ++round) {
    scheduler_.post(fickle, wire::Prefill{.round = round, .tokens = {5, 6}});
    scheduler_.hints(100, {.round = round, .credit = 10});
    scheduler_.cancel(100, round);
  }
  expect_room_for_two();
}

// However many there are: they wait for their clients.
TEST_F(QueueMetricsTest, PausedRunsHoldNoQueuePlace) {
  pass_.end();
  for (std::uint64_t connection = 1; connection <= 3; ++connection) {
    scheduler_.post(client(connection),
                    wire::Prefill{.round = 1, .tokens = {5, 6}, .run = {.credit = 3}});
    EXPECT_FALSE(answers_.back()->wait());
  }
  // The last answer is sent just before the thread checks which runs are paused.
  std::optional<Error> refused;
  const Instant end = Clock::now() + 20s;
  do {
    std::this_thread::yield();
    ask();
    refused = answers_.back()->wait();
  } while (refused && Clock::now() < end);
  EXPECT_FALSE(refused);
}

// Nor does a disconnected client.
TEST_F(QueueMetricsTest, DisconnectedClientsHoldNoQueuePlace) {
  ask();
  pass_.wait_begun();
  const Client leaving = client(100);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    scheduler_.post(leaving, wire::Prefill{.round = 1, .tokens = {5, 6}});
    scheduler_.hints(100, {.round = 1, .credit = 10});
    scheduler_.ended(100);
  }
  expect_room_for_two();
}

}  // namespace
}  // namespace edgedraft::server
