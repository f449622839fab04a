#include "server/load/start_measurement.h"

#include <gtest/gtest.h>

#include "server/passes/pass_loop.h"
#include "shared/drafting/moa/moa_tap.h"
#include "shared/protocol/draft_sizes.h"
#include "tests/protocol/support.h"
#include "tests/support/held_length.h"
#include "tests/support/toy_models.h"

namespace edgedraft {
namespace {

using namespace std::chrono_literals;

class VerdictKeeper final : public Replies {
 public:
  void verdict(wire::Verdict verdict) override { verdicts.push_back(std::move(verdict)); }
  void activations(wire::Activations) override {}
  void refuse(std::uint32_t, Error error) override { ADD_FAILURE() << error.message; }

  std::vector<wire::Verdict> verdicts;
};

// A server whose passes take 10 ms and 1 ms a row; whatever else it does takes no time.
class StartMeasurementTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kContext = 160;

  static Duration pace(std::uint32_t rows) { return 10ms + rows * 1ms; }

  wire::Verdict prompt(std::uint64_t connection, const std::vector<std::uint32_t>& tokens) {
    return prompt(loop_, connection, tokens);
  }
  wire::Verdict prompt(PassLoop& loop, std::uint64_t connection,
                       const std::vector<std::uint32_t>& tokens) {
    wire::SessionId session{};
    session[0] = static_cast<std::byte>(connection);
    const auto keeper = std::make_shared<VerdictKeeper>();
    loop.begin({.connection_id = connection,
                .reply = keeper,
                .session = session,
                .identity = "someone",
                .tap = nullptr},
               wire::Prefill{.round = 1, .tokens = tokens}, now_);
    while (!loop.idle()) loop.step();
    return keeper->verdicts.at(0);
  }

  testing::ToyDecoder toy_{1};
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, kContext};
  Instant now_{};
  PassLoop loop_{{.decoder = decoder_,
                  .context_count = kContext,
                  .is_end = [](std::uint32_t) { return false; }},
                 {.sessions = {.sessions_max = 64, .kv_bytes_max = 0},
                  .pace = pace,
                  .wait_until = [this](Instant end) { now_ = std::max(now_, end); }},
                 [this] { return now_; }};
};

TEST_F(StartMeasurementTest, TheFirstVerdictTellsWhatPassesCost) {
  ASSERT_FALSE(loop_.measure_costs(1s, {}).passes.empty());
  const wire::Verdict verdict = prompt(1, {5, 6, 7});
  EXPECT_NEAR(verdict.stream_us, 11'000, 100);
  ASSERT_EQ(verdict.outlook_us.size(), draft_size(verdict.row_budget) + 1);
  ASSERT_EQ(verdict.outlook_tokens.size(), verdict.outlook_us.size());
  ASSERT_GE(verdict.outlook_us.size(), 3u);
  EXPECT_NEAR(verdict.outlook_us[2], 14'000, 200);  // 4 rows
  EXPECT_EQ(verdict.outlook_tokens[0], wire::kOutlookTokenParts);
  // A row costs a tenth of a pass: a tree of all rows would be too large.
  EXPECT_LE(verdict.row_budget, 32u);
}

TEST_F(StartMeasurementTest, WithoutItNothingIsToldOfTheFirstPass) {
  EXPECT_EQ(loop_.memory().pages_held, 0u);
  // One pass has been seen by then, and tells nothing of wider ones.
  const wire::Verdict first = prompt(1, {5, 6, 7});
  EXPECT_EQ(first.row_budget, 8u);
  EXPECT_EQ(first.stream_us, 0u);
  EXPECT_TRUE(first.outlook_us.empty());
  // A pass of another width, and everything is.
  const wire::Verdict second = prompt(2, std::vector<std::uint32_t>(40, 9));
  EXPECT_NEAR(second.stream_us, 12'000, 100) << "a row of each of two sessions";
  EXPECT_FALSE(second.outlook_us.empty());
}

TEST_F(StartMeasurementTest, AFixedBudgetIsToldWhateverPassesCost) {
  PassLoop loop({.decoder = decoder_,
                 .context_count = kContext,
                 .is_end = [](std::uint32_t) { return false; }},
                {.sessions = {.sessions_max = 1, .kv_bytes_max = 0},
                 .pace = pace,
                 .wait_until = [this](Instant end) { now_ = std::max(now_, end); },
                 .row_budget = 128},
                [this] { return now_; });
  ASSERT_FALSE(loop.measure_costs(1s, {}).passes.empty());
  EXPECT_EQ(prompt(loop, 1, {5, 6, 7}).row_budget, 128u);
}

// Or a session that is told a single row would prove it right by answering at once.
TEST_F(StartMeasurementTest, ADraftOfARootDoesNotTellHowLongDraftingTakes) {
  ASSERT_FALSE(loop_.measure_costs(1s, {}).passes.empty());
  const auto keeper = std::make_shared<VerdictKeeper>();
  const Client client{
      .connection_id = 1, .reply = keeper, .session = {}, .identity = "someone", .tap = nullptr};
  std::uint32_t round = 0;
  testing::HeldLength length;
  const auto ask = [&](const TargetWork& request, Duration absence) {
    now_ += absence;
    std::visit([&](const auto& r) { length.asked(r); }, request);
    loop_.begin(client, request, now_);
    while (!loop_.idle()) loop_.step();
    length.heard(keeper->verdicts.back());
    return keeper->verdicts.back().row_budget;
  };
  const auto chain = [&](const std::vector<std::uint32_t>& nodes) {
    return wire::Draft{.round = ++round,
                       .base_length = length.value(),
                       .tokens = nodes,
                       .parents = std::vector<std::uint8_t>(nodes.size())};
  };
  ask(wire::Prefill{.round = ++round, .tokens = {5, 6, 7}}, 0s);
  std::uint32_t drafting = 0;
  for (int i = 0; i < 10; ++i) drafting = ask(chain({9}), 200ms);
  EXPECT_GT(drafting, 1u);
  std::uint32_t single = 0;
  for (int i = 0; i < 60; ++i) single = ask(chain({}), 0s);
  EXPECT_EQ(single, drafting);
}

TEST_F(StartMeasurementTest, LeavesNoTrace) {
  const wire::Verdict before = prompt(1, {5, 6, 7, 8, 9});
  loop_.end(1);
  Decoder other(*backend_, toy_.config, toy_.tensors, kContext);
  PassLoop measured(
      {.decoder = other, .context_count = kContext, .is_end = [](std::uint32_t) { return false; }},
      {.sessions = {.sessions_max = 64, .kv_bytes_max = 0}}, [this] { return now_; });
  measured.measure_costs(1s, {});
  EXPECT_EQ(measured.memory().pages_held, 0u);
  EXPECT_EQ(measured.count().passes, 0u);
  wire::SessionId session{};
  const auto keeper = std::make_shared<VerdictKeeper>();
  measured.begin({.connection_id = 1,
                  .reply = keeper,
                  .session = session,
                  .identity = "someone",
                  .tap = nullptr},
                 wire::Prefill{.round = 1, .tokens = {5, 6, 7, 8, 9}}, now_);
  while (!measured.idle()) measured.step();
  EXPECT_EQ(keeper->verdicts.at(0).next, before.next);
}

// Another program takes the processor away from every other piece of work.
TEST_F(StartMeasurementTest, GoesByTheLeastDisturbedPass) {
  KvCache cache = decoder_.make_cache();
  std::uint32_t looks = 0;
  const StartCosts costs =
      measure_start_costs(decoder_, cache, {.time_max = 1s, .rows_max = 32, .taps = {}, .now = [&] {
                                              return now_ += ++looks % 5 < 3 ? 1ms : 10us;
                                            }});
  ASSERT_EQ(costs.passes.size(), 3u);
  for (const StartCosts::Sample& pass : costs.passes) EXPECT_EQ(pass.time, 10us) << pass.count;
}

// A device on which each look at the clock finds a second gone.
TEST_F(StartMeasurementTest, IsGivenUpWhereItTakesTooLong) {
  KvCache cache = decoder_.make_cache();
  std::uint32_t looks = 0;
  const StartCosts costs = measure_start_costs(
      decoder_, cache,
      {.time_max = 3s, .rows_max = 256, .taps = {}, .now = [&] { return now_ += 1s * ++looks; }});
  EXPECT_TRUE(costs.passes.empty());
  EXPECT_LE(looks, 5u);
  EXPECT_EQ(cache.length(), 0u);
}

TEST_F(StartMeasurementTest, TimesWhatActivationsTake) {
  const testing::ToyMoa moa(toy_, 3, 1);
  MoaTap tap(*backend_, moa.config, moa.tensors);
  Tap* const taps[] = {&tap, &tap};
  KvCache cache = decoder_.make_cache();
  const StartCosts costs = measure_start_costs(
      decoder_, cache,
      {.time_max = 1s, .rows_max = 64, .taps = taps, .now = [&] { return now_ += 10us; }});
  EXPECT_EQ(costs.passes.back().count, 64u);
  ASSERT_EQ(costs.deliveries.size(), 2u);
  EXPECT_EQ(costs.deliveries[0].time, 5us);  // of one of the two
}

}  // namespace
}  // namespace edgedraft
