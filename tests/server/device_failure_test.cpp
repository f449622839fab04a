#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <set>

#include "server/metrics/pages.h"
#include "server/passes/pass_loop.h"
#include "shared/drafting/moa/moa_tap.h"
#include "tests/protocol/support.h"
#include "tests/server/toy_session.h"
#include "tests/support/failing_backend.h"
#include "tests/support/heard_replies.h"
#include "tests/support/hint_nodes.h"
#include "tests/support/metrics_reading.h"
#include "tests/support/toy_models.h"

// Effects of a failing device on a server's clients, and what the server reports about it.
namespace edgedraft::server {
namespace {

using testing::DeviceFault;
using testing::FailingBackend;
using testing::kToyVocabulary;
using testing::Operation;
using testing::ToyDecoder;
using testing::ToyMoa;
using Heard = testing::HeardReplies;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

// A loop over a device on which any operation may fail.
class DeviceFailureTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kContext = 64;

  struct Caller {
    Client client;
    std::shared_ptr<Heard> heard;
    std::uint32_t round = 0;
    std::uint32_t asked_count = 0;  // requests and hints; each has one answer
  };

  Caller caller(std::uint8_t id, Tap* tap = nullptr) {
    auto heard = std::make_shared<Heard>(tap != nullptr);
    return {.client = testing::client_of(id, heard, tap), .heard = heard};
  }

  void post(Caller& caller, TargetWork request) {
    ++caller.asked_count;
    std::visit([&](const auto& r) { caller.heard->length.asked(r); }, request);
    loop_.begin(caller.client, request, now_);
  }
  void ask(Caller& caller, const Tokens& prompt = {5, 6, 7},
           const wire::RunTerms& run = {
               .credit = kContext, .rows = true, .hold = wire::Hold::lockstep}) {
    loop_.cancel(caller.client.connection_id, caller.round);
    post(caller, wire::Prefill{.round = ++caller.round, .tokens = prompt, .run = run});
  }
  // A chain.
  void draft(Caller& caller, const Tokens& tokens = {9, 10}) {
    draft_tree(caller, testing::hint_chain(tokens));
  }
  void draft_tree(Caller& caller, const std::vector<HintNode>& nodes) {
    ++caller.asked_count;
    loop_.hints(caller.client.connection_id,
                {.round = caller.round,
                 .complete = true,
                 .position = caller.heard->length.value(),
                 .nodes = nodes},
                now_);
  }
  void run() {
    while (!loop_.idle()) {
      now_ += std::chrono::milliseconds(10);
      loop_.step();
    }
  }

  // Makes the n-th operation of this kind from now on fail, and all later ones if `lasts`.
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

TEST_F(DeviceFailureTest, ReportsFailedPassUntilAnotherSucceeds) {
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

TEST_F(DeviceFailureTest, ReportsLastingFailureAsLostDevice) {
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

  // Later requests get the same error.
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

// Allocation fails for this client's verdicts.
class Unheard final : public Heard {
 public:
  void verdict(wire::Verdict) override { throw std::bad_alloc(); }
};

// The scheduler catches errors that belong to no request; part of the pass is already answered.
TEST_F(DeviceFailureTest, AnswersEveryRequestWhenDeliveryFailsMidway) {
  Caller first = caller(1);
  Caller unlucky = caller(2);
  Caller last = caller(3);
  unlucky.client.reply = unlucky.heard = std::make_shared<Unheard>();
  // Logging fails to allocate, too.
  metrics_->health.on_change([](Health::Device, const std::string&) { throw std::bad_alloc(); });
  for (Caller* c : {&first, &unlucky, &last}) ask(*c, {5, 6, 7}, {});
  EXPECT_THROW(loop_.step(), std::bad_alloc);
  metrics_->health.on_change({});
  loop_.give_up_all(std::bad_alloc());
  EXPECT_EQ(loop_.active_count(), 0u);
  EXPECT_EQ(first.heard->verdicts.size(), 1u);
  EXPECT_TRUE(first.heard->refusals.empty());
  EXPECT_EQ(unlucky.heard->refusals.size(), 1u);
  EXPECT_TRUE(last.heard->verdicts.empty());
  EXPECT_EQ(last.heard->refusals.size(), 1u);
  ask(last);
  run();
  EXPECT_EQ(last.heard->verdicts.size(), 1u);
}

// Two clients in every pass, with a tap that reads the states of both.
class SharedPassTest : public DeviceFailureTest {
 protected:
  using Callers = std::array<Caller, 2>;
  static constexpr std::array<std::array<std::uint32_t, 3>, 2> kPrompts{{{5, 6, 7}, {30, 31, 32}}};

  // After each prompt's answer, a wrong token with the right one as its sibling.
  SharedPassTest() {
    Callers plain = callers();
    ask_all(plain);
    for (Caller& c : plain) draft(c, {});
    run();
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const std::uint32_t right = plain[i].heard->verdicts.at(1).next;
      drafts_[i] = {{.token = (right + 1) % kToyVocabulary}, {.token = right}};
    }
    leave(plain);
  }

  // Each on its own connection.
  Callers callers() {
    id_ = id_ < 250 ? static_cast<std::uint8_t>(id_ + 2) : 1;
    return {caller(id_, &tap_), caller(static_cast<std::uint8_t>(id_ + 1), &tap_)};
  }
  void leave(const Callers& callers) {
    for (const Caller& c : callers) loop_.end(c.client.connection_id);
  }
  void ask_all(Callers& callers) {
    for (std::size_t i = 0; i < callers.size(); ++i) {
      ask(callers[i], Tokens(kPrompts[i].begin(), kPrompts[i].end()));
    }
    run();
  }
  // A refused caller has nothing to draft for.
  void draft_all(Callers& callers) {
    for (std::size_t i = 0; i < callers.size(); ++i) {
      if (callers[i].heard->refusals.empty()) draft_tree(callers[i], drafts_[i]);
    }
    run();
  }

  // Expects a prefix of the answer from a sound device. Returns true if it is the whole answer.
  static bool expect_right(const Heard& heard, const Heard& sound) {
    EXPECT_LE(heard.verdicts.size(), sound.verdicts.size());
    for (std::size_t i = 0; i < std::min(heard.verdicts.size(), sound.verdicts.size()); ++i) {
      EXPECT_EQ(heard.verdicts[i].next, sound.verdicts[i].next);
      EXPECT_EQ(heard.verdicts[i].tokens, sound.verdicts[i].tokens);
      EXPECT_EQ(heard.verdicts[i].activations, sound.verdicts[i].activations);
    }
    EXPECT_LE(heard.chunks.size(), sound.chunks.size());
    for (std::size_t i = 0; i < std::min(heard.chunks.size(), sound.chunks.size()); ++i) {
      EXPECT_EQ(heard.chunks[i].first, sound.chunks[i].first);
      EXPECT_EQ(heard.chunks[i].data, sound.chunks[i].data);
    }
    return heard.verdicts.size() == sound.verdicts.size() &&
           heard.chunks.size() == sound.chunks.size();
  }

  ToyMoa moa_{toy_, 3, 1};
  MoaTap tap_{backend_, moa_.config, moa_.tensors};
  std::array<std::vector<HintNode>, 2> drafts_;
  std::uint8_t id_ = 1;
};

// Fails every operation of a prompt and a draft once. Each request has one answer, which is right
// or an error. A tap's failure costs one of the two clients, even if only the rows of its prompt.
// Afterwards everyone gets the answers of a sound device.
TEST_F(SharedPassTest, AnswersEachRequestOnceWhereverDeviceFails) {
  const std::uint64_t passes = loop_.count().passes;
  Callers sound = callers();
  ask_all(sound);
  draft_all(sound);
  ASSERT_EQ(loop_.count().passes, passes + 2) << "each pass serves both clients";
  for (std::size_t i = 0; i < sound.size(); ++i) {
    const Caller& c = sound[i];
    ASSERT_EQ(c.heard->verdicts.size(), 2u);
    EXPECT_EQ(c.heard->verdicts[1].tokens, Tokens{drafts_[i][1].token});
    EXPECT_FALSE(c.heard->verdicts[1].activations.empty());
    EXPECT_EQ(c.heard->chunks.size(), 1u);
  }
  leave(sound);

  std::set<Operation> broken;
  std::size_t failures = 0;
  for (const Operation operation : testing::kOperations) {
    for (std::uint32_t n = 1;; ++n) {
      SCOPED_TRACE(testing::name_of(operation) + " " + std::to_string(n));
      Callers unlucky = callers();
      break_device(operation, n, false);
      ask_all(unlucky);
      draft_all(unlucky);
      const bool fired = fault_.fired;
      repair_device();
      failures += fired;
      if (fired) broken.insert(operation);
      std::size_t touched = 0;
      for (std::size_t i = 0; i < unlucky.size(); ++i) {
        const Heard& heard = *unlucky[i].heard;
        EXPECT_EQ(heard.verdicts.size() + heard.refusals.size(), unlucky[i].asked_count);
        for (const Error& refusal : heard.refusals) EXPECT_EQ(refusal.code, Errc::refused);
        touched += !expect_right(heard, *sound[i].heard);
      }
      EXPECT_EQ(touched > 0, fired);
      if (fired &&
          (operation == Operation::gather_layers || operation == Operation::group_attention ||
           operation == Operation::group_mean)) {
        EXPECT_EQ(touched, 1u);
      }

      for (Caller& c : unlucky) {
        c.heard->verdicts.clear();
        c.heard->chunks.clear();
        c.heard->refusals.clear();
      }
      ask_all(unlucky);
      draft_all(unlucky);
      for (std::size_t i = 0; i < unlucky.size(); ++i) {
        ASSERT_TRUE(unlucky[i].heard->refusals.empty());
        ASSERT_TRUE(expect_right(*unlucky[i].heard, *sound[i].heard));
      }
      leave(unlucky);
      if (!fired) break;
    }
  }
  EXPECT_GT(failures, 20u);
  EXPECT_EQ(samples()["device_failures_total"], static_cast<double>(failures));
  for (const Operation operation : {Operation::read, Operation::matmul, Operation::attention,
                                    Operation::compact, Operation::argmax, Operation::gather_layers,
                                    Operation::group_attention, Operation::group_mean}) {
    EXPECT_TRUE(broken.contains(operation)) << testing::name_of(operation);
  }
}

TEST_F(DeviceFailureTest, MetricsCountRunsRefusalsAndEvictions) {
  Caller first = caller(1);
  ask(first, {5, 6, 7, 8});
  run();
  draft(first, {9, 10, 11});
  run();
  draft(first, {});
  run();
  ASSERT_EQ(first.heard->verdicts.size(), 3u);
  const double accepted = static_cast<double>(first.heard->verdicts[1].tokens.size());
  // A prompt with a missing base, one that exceeds the context, an unknown session.
  Caller stranger = caller(2);
  post(stranger, wire::Prefill{.round = ++stranger.round, .base_length = 5});
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

  // A refused client holds no session. There are four slots; the fifth session replaces one whose
  // client has left.
  EXPECT_EQ(s["sessions"], 1);
  EXPECT_EQ(s["sessions_limit"], 4);
  // One page, used by a prompt and two drafts.
  const DecoderConfig& config = toy_.config;
  const double page_bytes =
      2.0 * sizeof(float) * config.layer_count * config.layer.heads.kv_cols() * KvPool::kPageSlots;
  EXPECT_EQ(s["kv_cache_bytes"], page_bytes);
  EXPECT_EQ(s["kv_cache_usage_perc"], page_bytes / s["kv_cache_bytes_limit"]);
  std::vector<Caller> more;
  for (std::uint8_t id = 3; id <= 6; ++id) {
    if (id == 6) loop_.end(1);
    more.push_back(caller(id));
    ask(more.back());
    run();
    EXPECT_EQ(more.back().heard->verdicts.size(), 1u);
  }
  s = samples();
  EXPECT_EQ(s["sessions"], 4);
  EXPECT_EQ(s["sessions_evicted_total"], 1);
  Caller one_too_many = caller(7);
  ask(one_too_many);
  EXPECT_EQ(samples()["requests_refused_total{reason=\"no_room\"}"], 1);
}

}  // namespace
}  // namespace edgedraft::server
