#include "server/metrics/metrics.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/metrics/pages.h"
#include "tests/support/metrics_reading.h"

namespace edgedraft::server {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::read_metrics;

class MetricsPageTest : public ::testing::Test {
 protected:
  std::map<std::string, double> samples() const {
    return read_metrics(render_metrics(metrics_, listener_, "1.2.3"));
  }

  HttpAnswer page(std::string_view path) const {
    return monitoring_page(
               {.metrics = metrics_, .listener = [this] { return listener_; }, .version = "1.2.3"},
               path)
        .value();
  }
  unsigned status(std::string_view path) const { return page(path).status; }
  json body(std::string_view path) const { return json::parse(page(path).body); }

  Metrics metrics_;
  ListenerStats listener_;
};

TEST_F(MetricsPageTest, ShowsRecordedValues) {
  metrics_.pass(1, 2ms);
  metrics_.pass(40, 30ms);
  metrics_.pass(300, 100s);
  metrics_.prompt_tokens.add(7);
  metrics_.prompt_answered(true, 30ms);
  // A continued answer has no first token.
  metrics_.prompt_answered(false, 30ms);
  metrics_.draft_answered(6, 2, 30ms);
  metrics_.draft_answered(6, 0, 40ms);
  metrics_.draft_answered(0, 0, 50ms);  // plain decoding
  metrics_.answered(1ms, 20ms);
  metrics_.refused(Refusal::no_room);
  metrics_.rejected(Rejection::unauthorized);
  metrics_.bad_frame(BadFrame::too_large);
  metrics_.requests_open.set(5);
  metrics_.requests_running.set(2);
  metrics_.requests_paused.set(1);
  metrics_.checkpoints.set(3);
  metrics_.checkpoints_max.set(8);
  metrics_.refused(Refusal::grammars);
  metrics_.refused(Refusal::quota);
  listener_ = {.accepted = 9, .over_limit = 1, .open = 3, .bytes_in = 100, .bytes_out = 200};

  auto s = samples();
  EXPECT_EQ(s["build_info{version=\"1.2.3\"}"], 1);
  EXPECT_EQ(s["passes_total"], 3);
  EXPECT_EQ(s["state_checkpoints"], 3);
  EXPECT_EQ(s["state_checkpoints_limit"], 8);
  EXPECT_EQ(s["pass_rows_bucket{le=\"1\"}"], 1);
  EXPECT_EQ(s["pass_rows_bucket{le=\"32\"}"], 1);
  EXPECT_EQ(s["pass_rows_bucket{le=\"64\"}"], 2);
  EXPECT_EQ(s["pass_rows_bucket{le=\"+Inf\"}"], 3);
  EXPECT_EQ(s["pass_rows_sum"], 341);
  EXPECT_EQ(s["pass_seconds_bucket{le=\"30\"}"], 2);
  EXPECT_DOUBLE_EQ(s["pass_seconds_sum"], 100.032);
  EXPECT_EQ(s["prompt_tokens_total"], 7);
  EXPECT_EQ(s["generation_tokens_total"], 7);
  EXPECT_EQ(s["time_to_first_token_seconds_bucket{le=\"0.025\"}"], 0);
  EXPECT_EQ(s["time_to_first_token_seconds_bucket{le=\"0.05\"}"], 1);
  EXPECT_EQ(s["spec_decode_num_drafts_total"], 2);
  EXPECT_EQ(s["spec_decode_num_draft_tokens_total"], 12);
  EXPECT_EQ(s["spec_decode_num_accepted_tokens_total"], 2);
  EXPECT_EQ(s["spec_decode_num_accepted_tokens_per_pos_total{position=\"0\"}"], 1);
  EXPECT_EQ(s["spec_decode_num_accepted_tokens_per_pos_total{position=\"1\"}"], 1);
  EXPECT_EQ(s["spec_decode_num_accepted_tokens_per_pos_total{position=\"2\"}"], 0);
  // A draft of three tokens in 30 ms, then one in 40 ms and one in 50 ms.
  EXPECT_EQ(s["inter_token_latency_seconds_bucket{le=\"0.01\"}"], 3);
  EXPECT_EQ(s["inter_token_latency_seconds_count"], 5);
  EXPECT_DOUBLE_EQ(s["inter_token_latency_seconds_sum"], 0.12);
  EXPECT_EQ(s["round_seconds_bucket{phase=\"queue\",le=\"0.001\"}"], 1);
  EXPECT_EQ(s["round_seconds_bucket{phase=\"verify\",le=\"0.01\"}"], 0);
  EXPECT_EQ(s["requests_refused_total{reason=\"no_room\"}"], 1);
  EXPECT_EQ(s["requests_refused_total{reason=\"device\"}"], 0);
  EXPECT_EQ(s["requests_refused_total{reason=\"grammars\"}"], 1);
  EXPECT_EQ(s["requests_refused_total{reason=\"quota\"}"], 1);
  EXPECT_EQ(s["connections_rejected_total{reason=\"unauthorized\"}"], 1);
  EXPECT_EQ(s["frames_rejected_total{reason=\"too_large\"}"], 1);
  EXPECT_EQ(s["num_requests_running"], 2);
  EXPECT_EQ(s["num_requests_waiting"], 2) << "without the one paused by its client";
  EXPECT_EQ(s["connections"], 3);
  EXPECT_EQ(s["connections_total"], 9);
  EXPECT_EQ(s["connections_over_limit_total"], 1);
  EXPECT_EQ(s["link_bytes_total{dir=\"up\"}"], 100);
  EXPECT_EQ(s["link_bytes_total{dir=\"down\"}"], 200);
  EXPECT_EQ(s["device_up"], 1);
}

// The number of series in a monitor does not grow with the events counted.
TEST_F(MetricsPageTest, NumberOfSeriesIsFixed) {
  const std::size_t before = samples().size();
  for (std::uint32_t i = 0; i < 300; ++i) {
    metrics_.pass(i, i * 1s);
    metrics_.draft_answered(i, i, i * 1s);
    metrics_.prompt_answered(true, i * 1s);
  }
  metrics_.health.device_failed("out of \"memory\"\n", false);
  EXPECT_EQ(samples().size(), before);
  EXPECT_LT(before, 250u);
}

TEST_F(MetricsPageTest, CountsConnectionEndOnceUnderItsCause) {
  metrics_.connection_ended(/*secured=*/false, Errc::link_down);
  metrics_.connection_ended(false, Errc::timed_out);
  metrics_.connection_ended(false, Errc::refused);  // already counted by the listener
  metrics_.connection_ended(true, Errc::refused);
  metrics_.connection_ended(true, Errc::link_down);
  metrics_.connection_ended(true, Errc::protocol);
  auto s = samples();
  EXPECT_EQ(s["connections_rejected_total{reason=\"tls\"}"], 1);
  EXPECT_EQ(s["connections_rejected_total{reason=\"tls_timeout\"}"], 1);
  EXPECT_EQ(s["frames_rejected_total{reason=\"protocol\"}"], 1);
  EXPECT_EQ(s["frames_rejected_total{reason=\"malformed\"}"], 0);
}

TEST_F(MetricsPageTest, UsageIsRelativeToPool) {
  metrics_.kv_bytes.set(3000);
  metrics_.kv_bytes_max.set(4000);
  EXPECT_EQ(samples()["kv_cache_usage_perc"], 0.75);
}

TEST_F(MetricsPageTest, ReadyFollowsServerPhase) {
  EXPECT_EQ(status("/health"), 200u);
  EXPECT_EQ(status("/ready"), 503u);
  EXPECT_EQ(body("/ready")["status"], "loading");
  metrics_.health.set_phase(Health::Phase::serving);
  EXPECT_EQ(status("/ready"), 200u);
  metrics_.health.set_phase(Health::Phase::draining);
  EXPECT_EQ(status("/ready"), 503u);
  EXPECT_EQ(body("/ready")["status"], "draining");
  EXPECT_EQ(status("/health"), 200u);
}

TEST_F(MetricsPageTest, ShowsFailureUntilPassSucceeds) {
  metrics_.health.set_phase(Health::Phase::serving);
  metrics_.health.device_failed("out of \"memory\": \xff", false);
  EXPECT_EQ(status("/health"), 503u);
  EXPECT_EQ(body("/health")["status"], "degraded");
  EXPECT_NE(body("/health")["reason"].get<std::string>().find("out of \"memory\""),
            std::string::npos);
  EXPECT_EQ(status("/ready"), 200u) << "the next request may succeed";
  metrics_.pass(1, 1ms);
  EXPECT_EQ(status("/health"), 200u);
}

TEST_F(MetricsPageTest, LostDeviceIsNotReady) {
  metrics_.health.set_phase(Health::Phase::serving);
  metrics_.health.device_failed("an illegal memory access", true);
  EXPECT_EQ(status("/health"), 503u);
  EXPECT_EQ(status("/ready"), 503u);
  EXPECT_EQ(body("/ready")["reason"], "an illegal memory access");
  EXPECT_EQ(samples()["device_up"], 0);
}

TEST_F(MetricsPageTest, ReportsEachHealthChangeOnce) {
  std::vector<Health::Device> reported;
  metrics_.health.on_change(
      [&](Health::Device device, const std::string&) { reported.push_back(device); });
  metrics_.pass(1, 1ms);
  for (int i = 0; i < 3; ++i) metrics_.health.device_failed("gone", false);
  metrics_.health.device_failed("gone", true);
  for (int i = 0; i < 3; ++i) metrics_.pass(1, 1ms);
  EXPECT_EQ(reported,
            (std::vector{Health::Device::failed, Health::Device::lost, Health::Device::works}));
}

// A driver may wait for a GPU forever without reporting it lost.
TEST_F(MetricsPageTest, TreatsOverlongStepAsLostDevice) {
  std::vector<Health::Device> reported;
  Health& health = metrics_.health;
  health.on_change([&](Health::Device device, const std::string&) { reported.push_back(device); });
  health.set_phase(Health::Phase::serving);
  const Instant start{};
  const auto ready_after = [&](Duration time) {
    health.look_at_step(start + time);
    return status("/ready") == 200u;
  };
  EXPECT_TRUE(ready_after(24h)) << "no step is running";
  health.step_begins(start);
  EXPECT_TRUE(ready_after(24h)) << "the first pass may take any time";
  health.step_ended();

  // On a slow CPU the widest pass may take minutes.
  metrics_.pass(256, 60s);
  metrics_.pass(1, 1s);
  health.step_begins(start);
  EXPECT_TRUE(ready_after(1h));
  EXPECT_FALSE(ready_after(2h));
  EXPECT_FALSE(ready_after(3h));
  EXPECT_EQ(status("/health"), 503u);
  health.step_ended();
  EXPECT_TRUE(ready_after(4h)) << "the step has ended";

  metrics_.pass(1, 10ms);
  health.step_begins(start);
  EXPECT_TRUE(ready_after(59s));
  EXPECT_FALSE(ready_after(61s));
  health.device_failed("an illegal memory access", true);
  health.step_ended();
  EXPECT_FALSE(ready_after(61s)) << "the step has failed";
  using enum Health::Device;
  EXPECT_EQ(reported, (std::vector{lost, works, lost, lost}));
}

TEST_F(MetricsPageTest, HasNoOtherPages) {
  const MonitoredServer server{.metrics = metrics_, .listener = {}, .version = {}};
  EXPECT_FALSE(monitoring_page(server, "/"));
  EXPECT_FALSE(monitoring_page(server, "/metrics/"));
}

}  // namespace
}  // namespace edgedraft::server
