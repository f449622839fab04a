#include <gtest/gtest.h>

#include <future>
#include <latch>

#include "server/metrics/pages.h"
#include "server/passes/scheduler.h"
#include "tests/protocol/support.h"
#include "tests/support/metrics_reading.h"
#include "tests/support/toy_models.h"

namespace edgedraft {
namespace {

// The one answer to a connection.
class Answer final : public Replies {
 public:
  void verdict(wire::Verdict) override { given_.set_value(std::nullopt); }
  void activations(wire::Activations) override { FAIL() << "there is no tap"; }
  void refuse(std::uint32_t, Error error) override { given_.set_value(std::move(error)); }

  // Nothing where it is a verdict.
  std::optional<Error> wait() { return given_.get_future().get(); }

 private:
  std::promise<std::optional<Error>> given_;
};

// A pass that takes as long as the test wants.
TEST(QueueMetricsTest, TellWhoRunsWhoWaitsAndWhoIsTurnedAway) {
  const testing::ToyDecoder toy(1);
  const auto backend = make_cpu_backend({.threads = 1});
  Decoder decoder(*backend, toy.config, toy.tensors, 64);
  const auto metrics = std::make_shared<Metrics>();
  std::latch in_a_pass(1);
  std::latch go_on(1);
  std::once_flag first;
  const auto hold = [&](std::uint32_t) {
    std::call_once(first, [&] {
      in_a_pass.count_down();
      go_on.wait();
    });
    return Duration::zero();
  };
  Scheduler scheduler(
      {.decoder = decoder, .context_count = 64, .is_end = [](std::uint32_t) { return false; }},
      {.passes = {.sessions = {.sessions_max = 8, .kv_bytes_max = 0},
                  .pace = hold,
                  .metrics = metrics},
       .queue_max = 3});
  const auto samples = [&] { return testing::read_metrics(render_metrics(*metrics, {}, "1")); };
  std::vector<std::shared_ptr<Answer>> answers;
  const auto ask = [&] {
    answers.push_back(std::make_shared<Answer>());
    wire::SessionId session{};
    session[0] = static_cast<decltype(session)::value_type>(answers.size());
    scheduler.post({.connection_id = answers.size(),
                    .reply = answers.back(),
                    .session = session,
                    .identity = "someone",
                    .tap = nullptr},
                   wire::Prefill{.round = 1, .tokens = {5, 6}});
  };

  ask();
  in_a_pass.wait();
  ask();
  ask();
  auto s = samples();
  EXPECT_EQ(s["num_requests_running"], 1);
  EXPECT_EQ(s["num_requests_waiting"], 2);
  ask();
  EXPECT_NE(answers[3]->wait().value().message.find("overloaded"), std::string::npos);
  EXPECT_EQ(samples()["requests_refused_total{reason=\"queue_full\"}"], 1);

  go_on.count_down();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(answers[i]->wait());
  // The last answer is given a moment before the thread looks what is left.
  while (metrics->requests_open.value() > 0) std::this_thread::yield();
  s = samples();
  EXPECT_EQ(s["num_requests_running"], 0);
  EXPECT_EQ(s["num_requests_waiting"], 0);
  EXPECT_EQ(s["round_seconds_count{phase=\"queue\"}"], 3);
}

}  // namespace
}  // namespace edgedraft
