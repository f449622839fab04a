// Answers of a server that does not wait, with any drafter.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/client/generation_rig.h"
#include "tests/client/scripted_link.h"
#include "tests/client/simulated_device.h"

namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;
using testing::Listener;
using testing::RepeatingDrafter;
using testing::ScriptedLink;
using testing::SimulatedDevice;
using testing::Tokens;
using testing::ToyDrafter;

const Tokens kDevicePrompt = {5, 9, 12, 7};

struct Measured {
  Duration round_trip;
  Duration pass;
  Duration row;
  Duration step;
  std::uint32_t rank;  // rank of the target's tokens in the drafter's order
};

TokenRate& rate(RunKnowledge& known, RunKind kind) {
  return known.rates[static_cast<std::size_t>(kind)];
}

double tokens_measured(RunKnowledge known, RunKind kind) {
  return rate(known, kind).tokens;
}

RunKnowledge knowledge(const Measured& measured) {
  RunControl control({});
  control.observe_link(measured.round_trip);
  for (std::uint32_t i = 0; i < 40; ++i) {
    const std::uint32_t rows = 1 + i % 8;
    control.observe_pass(rows, measured.pass + rows * measured.row);
    control.observe_step(rows, measured.step);
    control.observe_rank(measured.rank, 8);
  }
  RunKnowledge known = control.known();
  rate(known, RunKind::stream) = {.tokens = 32.0, .seconds = 32.0 * seconds(measured.pass)};
  return known;
}

// Drafting took five times as long as streaming, so the device streams.
RunKnowledge disappointed(const Measured& measured) {
  RunKnowledge known = knowledge(measured);
  for (const RunKind kind : {RunKind::overlap, RunKind::economy}) {
    rate(known, kind) = {.tokens = 16.0, .seconds = 5.0 * 16.0 * seconds(measured.pass)};
  }
  return known;
}

constexpr Measured kPoorDrafter{.round_trip = 30ms,
                                .pass = 8ms,
                                .row = 100us,
                                .step = SimulatedDevice::kDraftStep,
                                .rank = 100};

// The drafter has improved, which streamed answers cannot show.
TEST(OverlapTest, RetriesDraftingAfterStreamedAnswers) {
  SimulatedDevice device(
      {.hold = std::nullopt, .drafter = ToyDrafter::twin, .known = disappointed(kPoorDrafter)});
  std::vector<std::uint64_t> hints;  // so far
  constexpr std::size_t kAnswers = 20;
  for (std::size_t i = 0; i < kAnswers; ++i) {
    // The server would have an equal request's prefix in its cache, so these differ.
    const float temperature = i % 2 == 0 ? 1.0f : 0.9999f;
    device.ask(device.now(),
               {.prompt = kDevicePrompt,
                .terms = {.tokens_max = 150, .sampling = {.temperature = temperature, .seed = 2}},
                .on_over = [&] { hints.push_back(device.hint_count()); }});
  }
  device.run(400s);
  ASSERT_EQ(hints.size(), kAnswers);
  EXPECT_EQ(hints[0], 0u);
  EXPECT_GT(hints[kAnswers - 1], hints[kAnswers - 2])
      << "the device has learned that drafting pays";
}

// Turns then go by steps, whose length does not reflect the computation in them.
TEST(OverlapTest, DoesNotTimeDraftingBesidePrivateAnswer) {
  Measured good_drafter = kPoorDrafter;
  good_drafter.rank = 0;
  const RunKnowledge before = knowledge(good_drafter);
  SimulatedDevice device(
      {.hold = std::nullopt, .conversations = 2, .drafter = ToyDrafter::twin, .known = before});
  const Instant begun = device.now() + 50ms;
  std::optional<SendGrid::Hold> hold;
  device.time().at(begun, [&] { hold.emplace(device.grid()); });
  device.ask(begun, {.conversation = 0,
                     .prompt = kDevicePrompt,
                     .terms = {.tokens_max = 20, .route = WritingSide::device, .is_private = true},
                     .on_over = [&] { hold.reset(); }});
  Duration taken{};
  device.ask(begun + 1ms,
             {.conversation = 1,
              .prompt = kDevicePrompt,
              .terms = {.tokens_max = 150, .sampling = {.temperature = 1.0f, .seed = 2}},
              .on_over = [&] { taken = device.now() - begun; }});
  device.run(30s);
  ASSERT_LT(taken, SendGrid::kEndStep - 50ms) << "the answer must end before the steps do";
  EXPECT_GT(device.hint_count(), 0u);
  const RunKnowledge& known = device.generation(1).known();
  EXPECT_EQ(known.step.sums().weight, before.step.sums().weight);
  EXPECT_EQ(known.step.sums().seconds, before.step.sums().seconds);
  EXPECT_EQ(known.rates, before.rates);
  EXPECT_GT(known.right[0], before.right[0]) << "ranks need no clock";
}

struct SideBySide {
  Duration taken;  // until the end of the last answer
  std::vector<Tokens> tokens;
};

// Parallel answers of almost equal prompts.
SideBySide side_by_side(const SimulatedDevice::Options& options) {
  SimulatedDevice device(options);
  std::vector<Listener> listeners(options.conversations);
  const Instant begun = device.now();
  SideBySide told;
  for (std::uint32_t i = 0; i < options.conversations; ++i) {
    const float temperature = 1.0f - 0.0001f * static_cast<float>(i);
    device.ask(begun,
               {.conversation = i,
                .prompt = kDevicePrompt,
                .terms = {.tokens_max = 150, .sampling = {.temperature = temperature, .seed = 2}},
                .observer = &listeners[i],
                .on_over = [&] { told.taken = device.now() - begun; }});
  }
  device.run(60s);
  for (const Listener& listener : listeners) told.tokens.push_back(listener.tokens);
  return told;
}

// Drafting then brings no tokens, and must not cost any.
TEST(OverlapTest, KeepsUpWithServerFasterThanDrafter) {
  constexpr Duration kSlowStep = 25ms;  // three passes
  for (const std::uint32_t count : {1u, 4u}) {
    SCOPED_TRACE(count);
    const SideBySide streamed = side_by_side(
        {.hold = std::nullopt, .conversations = count, .known = disappointed(kPoorDrafter)});
    const SideBySide drafted = side_by_side({.hold = Hold::none,
                                             .conversations = count,
                                             .first_draft_step = kSlowStep,
                                             .others_draft_step = kSlowStep});
    ASSERT_GT(streamed.tokens[0].size(), 60u);
    EXPECT_EQ(drafted.tokens, streamed.tokens);
    // The last verdicts may wait for one step of each conversation.
    EXPECT_LE(drafted.taken, streamed.taken * 5 / 4 + count * kSlowStep);
  }
}

// It cannot know which untried tokens would have been right.
TEST(OverlapTest, ChainKeepsEstimatesOfUntriedRanks) {
  SimulatedDevice device({.hold = std::nullopt, .tree = {.breadth = 1, .depth = 4, .nodes = 4}});
  device.ask(device.now(),
             {.prompt = kDevicePrompt,
              .terms = {.tokens_max = 150, .sampling = {.temperature = 1.0f, .seed = 2}}});
  device.run(60s);
  const RunKnowledge& known = device.generation(0).known();
  ASSERT_LT(known.right[0], known.tried);
  EXPECT_GT(known.right[1], 0.0);
}

constexpr Measured kNearServer{
    .round_trip = 10ms, .pass = 10ms, .row = 0ms, .step = 3ms, .rank = 0};

// A device that lets a server stream; the test scripts the server's messages.
class ScriptedRun {
 public:
  ScriptedRun(std::uint32_t tokens_max, const RunKnowledge& known)
      : generation_({.link = link_,
                     .drafter = &drafter_,
                     .observer = listener_,
                     .is_end = [](std::uint32_t) { return false; },
                     .now = [this] { return now_; }},
                    {.tree = TreeShape{.breadth = 1, .depth = 2, .nodes = 2},
                     .tokens_max = tokens_max,
                     .context_count = 0,
                     .sampling = {},
                     .deadline = 40ms,
                     .resync = wire::ResyncPolicy::check,
                     .resync_wait = {},
                     .hold = std::nullopt,
                     .known = known}) {
    link_.told.emplace_back(
        ClientEvent(Welcomed{{.context_count = 4096, .hint_nodes_max = kHintNodesMax}}));
    generation_.begin(kDevicePrompt);
  }

  // Waits in the link until go_on().
  void bring(VerdictReceived::To to, std::uint32_t count) {
    length_ += count;
    link_.told.emplace_back(ClientEvent(
        VerdictReceived{.to = to,
                        .verdict = {.round = 1,
                                    .length = length_,
                                    .next = RepeatingDrafter::kToken,
                                    .tokens = Tokens(count - 1, RepeatingDrafter::kToken),
                                    .verify_us = 10'000},
                        .more = true}));
  }
  void go_on(Duration later) {
    now_ += later;
    generation_.go_on(link_.wait_event(Instant::min()));
  }

  const Generation& generation() const { return generation_; }
  const Listener& listener() const { return listener_; }
  double streamed_tokens() const { return tokens_measured(generation_.known(), RunKind::stream); }

 private:
  ScriptedLink link_;
  Listener listener_;
  RepeatingDrafter drafter_;
  Instant now_{};
  std::uint32_t length_ = static_cast<std::uint32_t>(kDevicePrompt.size());
  Generation generation_;
};

TEST(OverlapTest, MeasuresEachStreamWindowOnce) {
  constexpr std::uint32_t kLength = 40;
  RunKnowledge hopeless = disappointed(kNearServer);
  hopeless.balance = -16.0;
  rate(hopeless, RunKind::stream) = {.tokens = 10.0, .seconds = 0.1};
  ScriptedRun run(kLength, hopeless);
  run.bring(VerdictReceived::To::prefill, 1);
  run.go_on(20ms);
  ASSERT_EQ(run.generation().stats().overlap, "stream");
  EXPECT_EQ(run.streamed_tokens(), 10.0);
  run.bring(VerdictReceived::To::run, 33);
  run.go_on(1430ms);
  EXPECT_EQ(run.streamed_tokens(), 43.0);
  EXPECT_EQ(run.generation().stats().overlap, "stream");
  run.bring(VerdictReceived::To::run, 1);
  run.go_on(10ms);
  EXPECT_EQ(run.streamed_tokens(), 43.0);
  // A silent server's run is not measured.
  while (!run.generation().over()) run.go_on(1s);
  EXPECT_EQ(std::ranges::count(run.listener().provenance, Provenance::offline), 5);
  EXPECT_EQ(run.listener().tokens.size(), kLength);
  EXPECT_EQ(run.streamed_tokens(), 43.0);
}

// They had piled up while the device was busy.
TEST(OverlapTest, IgnoresBackloggedVerdictsWhenMeasuringStreamRate) {
  RunKnowledge hopeless = disappointed(kNearServer);
  hopeless.balance = -16.0;
  rate(hopeless, RunKind::stream) = {.tokens = 10.0, .seconds = 0.1};
  ScriptedRun run(200, hopeless);
  run.bring(VerdictReceived::To::prefill, 1);
  for (int i = 0; i < 70; ++i) run.bring(VerdictReceived::To::run, 1);
  run.go_on(20ms);
  EXPECT_EQ(run.listener().tokens.size(), 71u) << "all tokens are taken in one turn";
  ASSERT_EQ(run.generation().stats().overlap, "stream");
  EXPECT_EQ(run.streamed_tokens(), 10.0);
  for (int i = 0; i < 40; ++i) {
    run.bring(VerdictReceived::To::run, 1);
    run.go_on(10ms);
  }
  RunKnowledge known = run.generation().known();
  EXPECT_GT(rate(known, RunKind::stream).tokens, 10.0);
  EXPECT_NEAR(rate(known, RunKind::stream).cost(), 0.010, 0.0005) << "passes take 10 ms";
}

}  // namespace
}  // namespace edgedraft::client
