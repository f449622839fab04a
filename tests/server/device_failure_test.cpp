#include <gtest/gtest.h>

#include <limits>

#include "server/metrics/pages.h"
#include "server/passes/pass_loop.h"
#include "tests/protocol/support.h"
#include "tests/server/held_length.h"
#include "tests/support/failing_backend.h"
#include "tests/support/metrics_reading.h"
#include "tests/support/toy_models.h"

// What a failing device does to the clients of a server, and what the server says of it.
namespace edgedraft {
namespace {

using testing::DeviceFault;
using testing::FailingBackend;
using testing::Operation;
using testing::ToyDecoder;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kContext = 64;
constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

// The answers to one connection.
class Heard final : public Replies {
 public:
  void verdict(wire::Verdict verdict) override {
    length.heard(verdict);
    verdicts.push_back(std::move(verdict));
  }
  void activations(wire::Activations) override { FAIL() << "there is no tap"; }
  void refuse(std::uint32_t, Error error) override { refusals.push_back(std::move(error)); }

  testing::HeldLength length;
  std::vector<wire::Verdict> verdicts;
  std::vector<Error> refusals;
};

// A loop over a device of which any operation may fail.
class DeviceFailureTest : public ::testing::Test {
 protected:
  struct Caller {
    Client client;
    std::shared_ptr<Heard> heard;
    std::uint32_t round = 0;
  };

  Caller caller(std::uint8_t id) {
    auto heard = std::make_shared<Heard>();
    wire::SessionId session{};
    session[0] = static_cast<decltype(session)::value_type>(id);
    return {.client = {.connection_id = id,
                       .reply = heard,
                       .session = session,
                       .identity = "someone",
                       .tap = nullptr},
            .heard = heard};
  }

  void post(Caller& caller, TargetWork request) {
    std::visit([&](const auto& r) { caller.heard->length.asked(r); }, request);
    loop_.begin(caller.client, request, now_);
  }
  void ask(Caller& caller, const Tokens& prompt = {5, 6, 7}) {
    post(caller, wire::Prefill{.round = ++caller.round, .tokens = prompt});
  }
  void draft(Caller& caller, const Tokens& tokens = {9, 10}) {
    std::vector<std::uint8_t> parents;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      parents.push_back(static_cast<std::uint8_t>(i));
    }
    post(caller, wire::Draft{.round = ++caller.round,
                             .base_length = caller.heard->length.value(),
                             .tokens = tokens,
                             .parents = parents});
  }
  void run() {
    while (!loop_.idle()) {
      now_ += std::chrono::milliseconds(10);
      loop_.step();
    }
  }

  // From now on the n-th operation of the kind fails.
  void break_device(Operation operation, std::uint32_t n, bool lasts) {
    fault_ = {.operation = operation, .n = n, .lasts = lasts};
  }
  void repair_device() { fault_ = {.operation = Operation::top_k, .n = kNever}; }

  Health::View health() const { return metrics_->health.view(); }
  std::map<std::string, double> samples() const {
    return testing::read_metrics(render_metrics(*metrics_, {}, "1"));
  }

  DeviceFault fault_{.operation = Operation::top_k, .n = kNever};
  FailingBackend backend_{make_cpu_backend({.threads = 1}), fault_};
  ToyDecoder toy_{1};
  Decoder decoder_{backend_, toy_.config, toy_.tensors, kContext};
  std::shared_ptr<Metrics> metrics_ = std::make_shared<Metrics>();
  Instant now_{};
  PassLoop loop_{{.decoder = decoder_,
                  .context_count = kContext,
                  .is_end = [](std::uint32_t) { return false; }},
                 {.sessions = {.sessions_max = 4, .kv_bytes_max = 0}, .metrics = metrics_},
                 [this] { return now_; }};
};

TEST_F(DeviceFailureTest, AFailedPassIsSeenUntilAnotherSucceeds) {
  Caller unlucky = caller(1);
  break_device(Operation::attention, 2, false);
  ask(unlucky);
  run();
  ASSERT_EQ(unlucky.heard->refusals.size(), 1u);
  EXPECT_EQ(unlucky.heard->refusals[0].code, Errc::refused);
  EXPECT_NE(unlucky.heard->refusals[0].message.find("attention"), std::string::npos);
  EXPECT_EQ(health().device, Health::Device::failed);
  EXPECT_NE(health().reason.find("attention"), std::string::npos);

  ask(unlucky);
  run();
  EXPECT_EQ(unlucky.heard->verdicts.size(), 1u);
  EXPECT_EQ(health().device, Health::Device::works);
  auto s = samples();
  EXPECT_EQ(s["device_failures_total"], 1);
  EXPECT_EQ(s["requests_refused_total{reason=\"device\"}"], 1);
  EXPECT_EQ(s["passes_total"], 1);
}

TEST_F(DeviceFailureTest, ALostDeviceIsCalledLost) {
  Caller first = caller(1);
  ask(first);
  run();
  break_device(Operation::matmul, 1, true);
  Caller second = caller(2);
  draft(first);
  ask(second);
  run();
  EXPECT_EQ(first.heard->refusals.size(), 1u);
  EXPECT_EQ(second.heard->refusals.size(), 1u);
  EXPECT_EQ(health().device, Health::Device::lost);

  // Every later request is told so as well.
  ask(second);
  run();
  EXPECT_EQ(second.heard->refusals.size(), 2u);
  EXPECT_EQ(health().device, Health::Device::lost);

  repair_device();
  ask(second);
  run();
  EXPECT_EQ(second.heard->verdicts.size(), 1u);
  EXPECT_EQ(health().device, Health::Device::works);
}

// Every operation of a prompt and a draft fails once: each request has one answer, and afterwards
// everyone gets what a client of a sound device gets.
TEST_F(DeviceFailureTest, WhereverItFailsEveryRequestHasOneAnswer) {
  Caller sound = caller(1);
  ask(sound);
  run();
  draft(sound);
  run();
  ASSERT_EQ(sound.heard->verdicts.size(), 2u);
  loop_.end(1);

  std::uint8_t id = 1;
  std::size_t failures = 0;
  for (const Operation operation : testing::kOperations) {
    for (std::uint32_t n = 1;; ++n) {
      ++id;
      if (id == 255) id = 2;
      Caller c = caller(id);
      break_device(operation, n, false);
      ask(c);
      run();
      EXPECT_EQ(c.heard->verdicts.size() + c.heard->refusals.size(), 1u);
      if (c.heard->refusals.empty()) {
        draft(c);
        run();
        EXPECT_EQ(c.heard->verdicts.size() + c.heard->refusals.size(), 2u);
      }
      const bool fired = fault_.fired;
      repair_device();
      failures += fired;
      EXPECT_EQ(fired, !c.heard->refusals.empty()) << testing::name_of(operation) << ' ' << n;

      c.heard->verdicts.clear();
      ask(c);
      run();
      draft(c);
      run();
      ASSERT_EQ(c.heard->verdicts.size(), 2u) << testing::name_of(operation) << ' ' << n;
      EXPECT_EQ(c.heard->verdicts[0].next, sound.heard->verdicts[0].next);
      EXPECT_EQ(c.heard->verdicts[1].next, sound.heard->verdicts[1].next);
      EXPECT_EQ(c.heard->verdicts[1].path, sound.heard->verdicts[1].path);
      loop_.end(id);
      if (!fired) break;
    }
  }
  EXPECT_GT(failures, 20u);
  EXPECT_EQ(samples()["device_failures_total"], static_cast<double>(failures));
}

TEST_F(DeviceFailureTest, CountsARunAsItWas) {
  Caller first = caller(1);
  ask(first, {5, 6, 7, 8});
  run();
  draft(first, {9, 10, 11});
  run();
  draft(first, {});
  run();
  ASSERT_EQ(first.heard->verdicts.size(), 3u);
  const double accepted = static_cast<double>(first.heard->verdicts[1].path.size());
  // A draft of nobody's, a prompt that fits no context, a session that nobody has.
  Caller stranger = caller(2);
  draft(stranger);
  ask(stranger, Tokens(kContext, 5));
  post(stranger, wire::Resume{.round = ++stranger.round});
  EXPECT_EQ(stranger.heard->refusals.size(), 3u);

  auto s = samples();
  EXPECT_EQ(s["prompt_tokens_total"], 4);
  EXPECT_EQ(s["generation_tokens_total"], 3 + accepted);
  EXPECT_EQ(s["spec_decode_num_drafts_total"], 1);
  EXPECT_EQ(s["spec_decode_num_draft_tokens_total"], 3);
  EXPECT_EQ(s["spec_decode_num_accepted_tokens_total"], accepted);
  EXPECT_EQ(s["passes_total"], 3);
  EXPECT_EQ(s["pass_rows_sum"], 4 + 4 + 1);
  EXPECT_EQ(s["time_to_first_token_seconds_count"], 1);
  EXPECT_EQ(s["inter_token_latency_seconds_count"], 2 + accepted);
  EXPECT_EQ(s["round_seconds_count{phase=\"queue\"}"], 3);
  EXPECT_EQ(s["requests_refused_total{reason=\"session_unknown\"}"], 2);
  EXPECT_EQ(s["requests_refused_total{reason=\"context_full\"}"], 1);
  EXPECT_EQ(s["session_resume_total{result=\"unknown\"}"], 1);
  EXPECT_EQ(s["num_requests_running"], 0);

  // Room for four: the fifth takes the place of one that has left.
  EXPECT_EQ(s["sessions"], 2);
  EXPECT_EQ(s["sessions_limit"], 4);
  // One page, of a prompt and two drafts.
  const DecoderConfig& config = toy_.config;
  const double page_bytes =
      2.0 * sizeof(float) * config.layer_count * config.layer.heads.kv_cols() * KvPool::kPageSlots;
  EXPECT_EQ(s["kv_cache_bytes"], page_bytes);
  EXPECT_EQ(s["kv_cache_usage_perc"], page_bytes / s["kv_cache_bytes_limit"]);
  std::vector<Caller> more;
  for (std::uint8_t id = 3; id <= 5; ++id) {
    if (id == 5) loop_.end(1);
    more.push_back(caller(id));
    ask(more.back());
    run();
    EXPECT_EQ(more.back().heard->verdicts.size(), 1u);
  }
  s = samples();
  EXPECT_EQ(s["sessions"], 4);
  EXPECT_EQ(s["sessions_evicted_total"], 1);
  Caller one_too_many = caller(6);
  ask(one_too_many);
  EXPECT_EQ(samples()["requests_refused_total{reason=\"no_room\"}"], 1);
}

}  // namespace
}  // namespace edgedraft
