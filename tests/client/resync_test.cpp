// A generation whose link breaks, goes silent or meets a server that has forgotten it.
#include <gtest/gtest.h>

#include <algorithm>

#include "client/generation/generation.h"
#include "tests/client/generation_rig.h"
#include "tests/support/expect.h"

namespace edgedraft::client {
namespace {

using testing::Answer;
using testing::GenerationRig;
using testing::kRigContext;
using testing::kRigPrompt;
using testing::LinkFault;
using testing::name_of;
using testing::Tokens;
using testing::ToyDrafter;

using namespace std::chrono_literals;

constexpr std::uint32_t kForever = 1'000'000;
constexpr TreeShape kSmallTree{.breadth = 2, .depth = 2, .nodes = 4};
constexpr LinkFault::Kind kFaults[] = {LinkFault::Kind::lost_request, LinkFault::Kind::lost_answer,
                                       LinkFault::Kind::silence, LinkFault::Kind::forgotten,
                                       LinkFault::Kind::refused};

std::string name_of(LinkFault::Kind kind) {
  // In the order of LinkFault::Kind.
  constexpr const char* kNames[] = {"lost request", "lost answer", "silence",  "forgotten",
                                    "refused",      "replaced",    "forgetful"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string trace(const LinkFault& fault) {
  return name_of(fault.kind) + " at request " + std::to_string(fault.request) + " for " +
         std::to_string(fault.wait_calls) + " calls";
}

// Every fault at every request of an answer, for outages of several lengths.
template <class Check>
void for_each_fault(GenerationRig::Options options, Check check) {
  options.faults = {};
  GenerationRig undisturbed(options);
  undisturbed.answer(kRigPrompt);
  const std::uint32_t requests = undisturbed.link().request_count();
  for (const LinkFault::Kind kind : kFaults) {
    for (std::uint32_t request = 0; request <= requests; ++request) {
      if (request == 0 && kind != LinkFault::Kind::lost_request) continue;
      for (const std::uint32_t calls : {2u, 6u, 30u}) {
        const LinkFault fault{.request = request, .kind = kind, .wait_calls = calls};
        SCOPED_TRACE(trace(fault));
        options.faults = {fault};
        check(options);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

void expect_verified_and_plain(GenerationRig& rig, const Answer& answer) {
  const Answer plain = rig.plain(kRigPrompt);
  EXPECT_EQ(answer.tokens, plain.tokens);
  EXPECT_EQ(answer.end, plain.end);
  EXPECT_EQ(answer.count(Provenance::verified), answer.tokens.size());
}

// Verified tokens equal the target's choice after the text before them.
void expect_choices(GenerationRig& rig, Tokens text, const Answer& answer) {
  for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
    if (answer.provenance[i] == Provenance::verified) {
      EXPECT_EQ(answer.tokens[i], rig.choice(text, static_cast<std::uint32_t>(text.size())));
    }
    text.push_back(answer.tokens[i]);
  }
}

Tokens behind(Tokens prompt, const Tokens& answer, std::uint32_t next) {
  prompt.insert(prompt.end(), answer.begin(), answer.end());
  prompt.push_back(next);
  return prompt;
}

class ResyncTest : public ::testing::TestWithParam<ToyDrafter> {
 protected:
  GenerationRig::Options options() const {
    return {.drafter = GetParam(), .tree = kSmallTree, .tokens_max = 12};
  }
  // It cannot write before it has activations.
  static bool needs_target() {
    return GetParam() != ToyDrafter::independent && GetParam() != ToyDrafter::twin;
  }
  // A prompt that such a drafter can answer alone: the second turn of a conversation.
  static Tokens second_turn(GenerationRig& rig) {
    if (!needs_target()) return kRigPrompt;
    return behind(kRigPrompt, rig.answer(kRigPrompt).tokens, 33);
  }
};

TEST_P(ResyncTest, CheckedAnswersEqualPlainDecodingAfterAnyFault) {
  for (const float temperature : {0.0f, 0.9f}) {
    GenerationRig::Options with = options();
    with.sampling = {.temperature = temperature, .seed = 3};
    for_each_fault(with, [&](const GenerationRig::Options& o) {
      GenerationRig rig(o);
      const Answer answer = rig.answer(kRigPrompt);
      expect_verified_and_plain(rig, answer);
      EXPECT_LE(answer.stats.rewritten_tokens, answer.stats.offline_tokens);
    });
  }
}

TEST_P(ResyncTest, TargetContinuesAfterKeptText) {
  std::uint32_t kept = 0;
  GenerationRig::Options with = options();
  with.resync = wire::ResyncPolicy::keep;
  for_each_fault(with, [&](const GenerationRig::Options& o) {
    GenerationRig rig(o);
    const Answer answer = rig.answer(kRigPrompt);
    EXPECT_EQ(answer.stats.rewritten_tokens, 0u);
    EXPECT_EQ(answer.count(Provenance::offline), answer.stats.offline_tokens);
    expect_choices(rig, kRigPrompt, answer);
    if (answer.provenance.back() == Provenance::verified) kept += answer.stats.offline_tokens;
  });
  EXPECT_GT(kept, 0u) << "no outage ended early enough to continue after kept text";
}

TEST_P(ResyncTest, ServerOnlyAnswerWaitsForServer) {
  for_each_fault(options(), [&](const GenerationRig::Options& o) {
    GenerationRig rig(o);
    rig.generation().set({.tokens_max = o.tokens_max, .writes_offline = false});
    const Answer answer = rig.answer(kRigPrompt);
    expect_verified_and_plain(rig, answer);
    EXPECT_EQ(answer.stats.offline_tokens, 0u);
  });
}

// Another model's text is checked as the drafter's own.
TEST_P(ResyncTest, ChecksOfflineTextOfAnotherModel) {
  std::uint32_t offline = 0;
  for_each_fault(options(), [&](GenerationRig::Options o) {
    o.twin_writes = true;
    GenerationRig rig(o);
    const Answer answer = rig.answer(kRigPrompt);
    EXPECT_EQ(answer.tokens, rig.plain(kRigPrompt).tokens);
    EXPECT_EQ(answer.stats.rewritten_tokens, 0u) << "the offline model equals the target";
    offline += answer.stats.offline_tokens;
  });
  EXPECT_GT(offline, 0u);
}

// Text of a long outage is kept; text of a short one is checked.
TEST_P(ResyncTest, KeepsTextOfLongOutagesAndChecksShortOnes) {
  std::uint32_t kept = 0;
  std::uint32_t checked = 0;
  for (const Duration keep_after : {0ms, 5ms, 1000ms}) {
    for_each_fault(options(), [&](const GenerationRig::Options& o) {
      GenerationRig rig(o);
      rig.generation().set({.tokens_max = o.tokens_max, .keep_after = keep_after});
      const Answer answer = rig.answer(kRigPrompt);
      EXPECT_TRUE(answer.tokens.size() == o.tokens_max || answer.end == GenerationEnd::end_token);
      if (rig.listener().kept == 0) {
        expect_verified_and_plain(rig, answer);
        checked += answer.stats.offline_tokens;
        return;
      }
      kept += answer.count(Provenance::offline);
      expect_choices(rig, kRigPrompt, answer);
      for (std::size_t i = rig.listener().kept; i < answer.tokens.size(); ++i) {
        EXPECT_EQ(answer.provenance[i], Provenance::verified);
      }
    });
  }
  EXPECT_GT(kept, 0u);
  EXPECT_GT(checked, 0u);
}

// The server's answer covers the prompt as it was certain when sent, even if more is kept since.
TEST_P(ResyncTest, AcceptsLateVerdictAfterTextWasKept) {
  std::uint32_t kept = 0;
  std::uint32_t verified = 0;
  GenerationRig undisturbed(options());
  (void)second_turn(undisturbed);
  const std::uint32_t request = undisturbed.link().request_count() + 1;
  for (const std::uint32_t calls : {4u, 8u, 12u, 20u}) {
    GenerationRig::Options with = options();
    with.faults = {{.request = request, .kind = LinkFault::Kind::silence, .wait_calls = calls}};
    GenerationRig rig(with);
    const Tokens prompt = second_turn(rig);
    rig.generation().set({.tokens_max = 30, .keep_after = Duration::zero()});
    const Answer answer = rig.answer(prompt);
    kept += answer.count(Provenance::offline);
    verified += answer.count(Provenance::verified);
    expect_choices(rig, prompt, answer);
  }
  EXPECT_GT(kept, 0u);
  EXPECT_GT(verified, 0u) << "the server's answer came too late to matter";
}

TEST_P(ResyncTest, DeviceAnswerIsNeverSent) {
  GenerationRig rig(options());
  const Tokens prompt = second_turn(rig);
  const std::uint32_t requests = rig.link().request_count();
  rig.generation().set(
      {.tokens_max = 12, .keep_after = Duration::zero(), .route = WritingSide::device});
  const Answer answer = rig.answer(prompt);
  EXPECT_EQ(rig.link().request_count(), requests);
  EXPECT_EQ(answer.count(Provenance::offline), answer.tokens.size());
  EXPECT_TRUE(answer.tokens.size() == 12 || answer.end == GenerationEnd::end_token);
  EXPECT_FALSE(rig.settle()) << "nothing to check";
  // The next turn may be the server's.
  const Tokens next = behind(prompt, answer.tokens, 33);
  rig.generation().set({.tokens_max = 12});
  EXPECT_EQ(rig.answer(next).tokens, rig.plain(next).tokens);
}

TEST_P(ResyncTest, UnsureDeviceHandsOverAndTextIsCheckedOrKept) {
  for (const Duration keep_after : {Duration::max(), Duration::zero()}) {
    GenerationRig rig(options());
    const Tokens prompt = second_turn(rig);
    const std::uint32_t requests = rig.link().request_count();
    rig.generation().set({.tokens_max = 30,
                          .keep_after = keep_after,
                          .route = WritingSide::automatic,
                          .handover_below = 1.1});  // no drafter is as sure
    const Answer answer = rig.answer(prompt);
    EXPECT_EQ(answer.stats.offline_tokens, DrafterConfidence::kTokens);
    if (keep_after == Duration::max()) {
      EXPECT_EQ(answer.count(Provenance::verified), answer.tokens.size());
    } else {
      EXPECT_EQ(answer.count(Provenance::offline), DrafterConfidence::kTokens);
      EXPECT_GT(answer.count(Provenance::verified), 0u);
    }
    EXPECT_GT(rig.link().request_count(), requests);
    // A confident drafter needs no handover.
    GenerationRig sure(options());
    (void)second_turn(sure);
    sure.generation().set({.tokens_max = 12,
                           .keep_after = keep_after,
                           .route = WritingSide::automatic,
                           .handover_below = 0.0});
    EXPECT_EQ(sure.answer(prompt).stats.offline_tokens, sure.generation().stats().tokens);
  }
}

TEST_P(ResyncTest, AnswerEndsOfflineIfServerStaysAway) {
  for (std::uint32_t request = needs_target() ? 2 : 0; request <= 4; ++request) {
    SCOPED_TRACE(request);
    GenerationRig::Options with = options();
    with.resync_wait = std::chrono::seconds(1);
    with.faults = {
        {.request = request,
         .kind = request % 2 == 0 ? LinkFault::Kind::lost_request : LinkFault::Kind::silence,
         .wait_calls = kForever}};
    GenerationRig rig(with);
    const Answer answer = rig.answer(kRigPrompt);
    const Tokens plain = rig.plain(kRigPrompt).tokens;
    const std::uint32_t verified = answer.count(Provenance::verified);
    EXPECT_GT(answer.count(Provenance::offline), 0u);
    EXPECT_EQ(answer.count(Provenance::offline), answer.stats.offline_tokens);
    for (std::uint32_t i = 0; i < answer.tokens.size(); ++i) {
      EXPECT_EQ(answer.provenance[i] == Provenance::verified, i < verified);
      if (i < verified) {
        EXPECT_EQ(answer.tokens[i], plain[i]);
      }
    }
    EXPECT_TRUE(answer.tokens.size() == with.tokens_max || answer.end == GenerationEnd::end_token);
    EXPECT_EQ(rig.listener().states.back(), ClientState::offline);
  }
}

TEST_P(ResyncTest, SurvivesSecondOutageDuringResync) {
  for (std::uint32_t first = 1; first <= 4; ++first) {
    for (std::uint32_t later = 1; later <= 3; ++later) {
      for (const LinkFault::Kind kind : kFaults) {
        GenerationRig::Options with = options();
        with.faults = {
            {.request = first, .kind = LinkFault::Kind::lost_answer, .wait_calls = 4},
            {.request = first + later, .kind = kind, .wait_calls = 5},
            {.request = first + later + 1, .kind = LinkFault::Kind::silence, .wait_calls = 6}};
        SCOPED_TRACE(trace(with.faults[0]) + ", then " + trace(with.faults[1]));
        GenerationRig rig(with);
        EXPECT_EQ(rig.answer(kRigPrompt).tokens, rig.plain(kRigPrompt).tokens);
      }
    }
  }
}

TEST_P(ResyncTest, ChecksTextUpToEndOfContext) {
  for (const std::uint32_t calls : {20u, 200u}) {
    GenerationRig::Options with = options();
    with.tokens_max = 500;
    with.faults = {{.request = 2, .kind = LinkFault::Kind::lost_answer, .wait_calls = calls}};
    GenerationRig rig(with);
    const Answer answer = rig.answer(kRigPrompt);
    expect_verified_and_plain(rig, answer);
    EXPECT_LE(kRigPrompt.size() + answer.tokens.size(), kRigContext);
  }
}

TEST_P(ResyncTest, SettlingBetweenTurnsCorrectsUncheckedText) {
  GenerationRig::Options with = options();
  with.resync_wait = Duration::zero();
  with.faults = {{.request = 2, .kind = LinkFault::Kind::lost_answer, .wait_calls = 60}};
  GenerationRig rig(with);
  const Answer answer = rig.answer(kRigPrompt);
  ASSERT_GT(answer.count(Provenance::offline), 0u);
  std::optional<Answer> settled;
  for (int i = 0; i < 100 && !settled; ++i) settled = rig.settle();
  ASSERT_TRUE(settled);
  expect_verified_and_plain(rig, *settled);
  EXPECT_FALSE(rig.settle()) << "nothing left to check";

  const Tokens next = behind(kRigPrompt, settled->tokens, 33);
  EXPECT_EQ(rig.answer(next).tokens, rig.plain(next).tokens);
}

// An unchecked answer is part of the next prompt like any other text.
TEST_P(ResyncTest, NextTurnBuildsOnUncheckedAnswer) {
  GenerationRig::Options with = options();
  with.resync_wait = Duration::zero();
  with.faults = {{.request = 2, .kind = LinkFault::Kind::lost_request, .wait_calls = kForever}};
  GenerationRig rig(with);
  const Answer answer = rig.answer(kRigPrompt);
  ASSERT_GT(answer.count(Provenance::offline), 0u);
  rig.link().end_outage();
  const Tokens next = behind(kRigPrompt, answer.tokens, 33);
  EXPECT_EQ(rig.answer(next).tokens, rig.plain(next).tokens);
}

TEST_P(ResyncTest, ReportsStateChangesInOrder) {
  GenerationRig::Options with = options();
  with.faults = {{.request = 3, .kind = LinkFault::Kind::lost_answer, .wait_calls = 4}};
  GenerationRig rig(with);
  rig.answer(kRigPrompt);
  EXPECT_EQ(rig.listener().states,
            (std::vector{ClientState::offline, ClientState::resyncing, ClientState::online}));
}

INSTANTIATE_TEST_SUITE_P(Drafters, ResyncTest,
                         ::testing::Values(ToyDrafter::moa_tli0, ToyDrafter::moa_tli1,
                                           ToyDrafter::independent, ToyDrafter::twin,
                                           ToyDrafter::moa_reduced, ToyDrafter::eagle,
                                           ToyDrafter::eagle3, ToyDrafter::mtp),
                         [](const auto& drafter) { return testing::name_of(drafter.param); });

// If no drafter can write, an answer waits for the server's return. A link lost for good is an
// error.
TEST(ResyncErrorTest, WaitsForServerIfNoDrafterCanWrite) {
  for (const ToyDrafter drafter : {ToyDrafter::medusa, ToyDrafter::lookup, ToyDrafter::none}) {
    GenerationRig::Options options{.drafter = drafter, .tree = kSmallTree, .tokens_max = 12};
    if (drafter == ToyDrafter::none) options.tree = std::nullopt;
    for_each_fault(options, [&](const GenerationRig::Options& o) {
      GenerationRig rig(o);
      const Answer answer = rig.answer(kRigPrompt);
      EXPECT_EQ(answer.tokens, rig.plain(kRigPrompt).tokens);
      EXPECT_EQ(answer.stats.offline_tokens, 0u);
    });
    for (const LinkFault::Kind kind : {LinkFault::Kind::lost_request, LinkFault::Kind::silence}) {
      for (const std::uint32_t request : {0u, 1u, 3u}) {
        if (request == 0 && kind == LinkFault::Kind::silence) continue;
        options.faults = {{.request = request, .kind = kind, .wait_calls = kForever}};
        options.resync_wait = 1s;
        GenerationRig rig(options);
        const auto end = rig.try_answer(kRigPrompt);
        ASSERT_FALSE(end) << name_of(drafter) << ", " << trace(options.faults[0]);
        EXPECT_EQ(end.error().code,
                  kind == LinkFault::Kind::silence ? Errc::timed_out : Errc::link_down);
      }
    }
  }
}

// Likewise if the prompt fills its context.
TEST(ResyncErrorTest, DrafterWithFullContextWaitsForServer) {
  const GenerationRig::Options options{.tree = kSmallTree, .tokens_max = 12, .drafter_context = 4};
  for_each_fault(options, [&](const GenerationRig::Options& o) {
    GenerationRig rig(o);
    EXPECT_EQ(rig.answer(kRigPrompt).tokens, rig.plain(kRigPrompt).tokens);
  });
}

TEST(ResyncErrorTest, HandsOverOrFailsIfDeviceCannotWrite) {
  for (const ToyDrafter drafter : {ToyDrafter::medusa, ToyDrafter::twin}) {
    GenerationRig rig(
        {.drafter = drafter, .tree = kSmallTree, .tokens_max = 12, .drafter_context = 4});
    rig.generation().set({.tokens_max = 12, .route = WritingSide::automatic});
    EXPECT_EQ(rig.answer(kRigPrompt).tokens, rig.plain(kRigPrompt).tokens);
    rig.generation().set({.tokens_max = 12, .route = WritingSide::device});
    Tokens next = kRigPrompt;
    next.push_back(33);
    const auto end = rig.try_answer(next);
    ASSERT_TRUE(fails_with(end, Errc::context_full));
  }
  GenerationRig rig({.drafter = ToyDrafter::medusa, .tokens_max = 12});
  rig.generation().set({.tokens_max = 12, .route = WritingSide::device});
  const auto end = rig.try_answer(kRigPrompt);
  ASSERT_TRUE(fails_with(end, Errc::unsupported));
}

// Its text would be meaningless without activations.
TEST(ResyncErrorTest, DrafterWithoutActivationsRefusesAndNamesRemedy) {
  for (const ToyDrafter drafter :
       {ToyDrafter::moa_tli0, ToyDrafter::moa_tli1, ToyDrafter::eagle, ToyDrafter::moa_merged}) {
    GenerationRig::Options options{
        .drafter = drafter,
        .tokens_max = 12,
        .resync_wait = 1s,
        .faults = {{.request = 0, .kind = LinkFault::Kind::lost_request, .wait_calls = kForever}}};
    GenerationRig away(options);
    const auto end = away.try_answer(kRigPrompt);
    EXPECT_TRUE(fails_with(end, Errc::link_down, "--offline-bundle")) << name_of(drafter);
    EXPECT_TRUE(away.listener().tokens.empty());

    GenerationRig alone({.drafter = drafter, .tokens_max = 12});
    alone.generation().set({.tokens_max = 12, .route = WritingSide::device});
    const auto refused = alone.try_answer(kRigPrompt);
    EXPECT_TRUE(fails_with(refused, Errc::unsupported, "--offline-bundle")) << name_of(drafter);

    options.twin_writes = true;
    GenerationRig with_writer(options);
    EXPECT_FALSE(with_writer.answer(kRigPrompt).tokens.empty());
  }
}

TEST(ResyncErrorTest, ServerOnlyAnswerWaitsUpToLimit) {
  for (const std::uint32_t calls : {6u, kForever}) {
    GenerationRig rig(
        {.tokens_max = 12,
         .faults = {{.request = 1, .kind = LinkFault::Kind::lost_request, .wait_calls = calls}}});
    rig.generation().set({.tokens_max = 12, .writes_offline = false, .wait_max = 30s});
    const auto end = rig.try_answer(kRigPrompt);
    if (calls == kForever) {
      ASSERT_TRUE(fails_with(end, Errc::link_down));
      EXPECT_TRUE(rig.listener().tokens.empty());
    } else {
      ASSERT_TRUE(end) << end.error().message;
      EXPECT_EQ(rig.listener().tokens, rig.plain(kRigPrompt).tokens);
    }
  }
}

TEST(ResyncErrorTest, ServerContinuesWhenDrafterContextIsFull) {
  GenerationRig rig(
      {.drafter = ToyDrafter::twin, .tree = kSmallTree, .tokens_max = 12, .drafter_context = 8});
  rig.generation().set({.tokens_max = 12, .route = WritingSide::automatic});
  const Answer answer = rig.answer(kRigPrompt);
  EXPECT_EQ(answer.tokens, rig.plain(kRigPrompt).tokens);
  EXPECT_NE(answer.end, GenerationEnd::context);
}

// A writer beside the drafter may have a longer context.
TEST(ResyncErrorTest, OfflineModelWritesBeyondDrafterContext) {
  GenerationRig rig(
      {.tree = kSmallTree,
       .tokens_max = 12,
       .resync_wait = Duration::zero(),
       .twin_writes = true,
       .faults = {{.request = 1, .kind = LinkFault::Kind::lost_request, .wait_calls = kForever}},
       .drafter_context = 8});
  const Answer answer = rig.answer(kRigPrompt);
  EXPECT_EQ(answer.tokens, rig.plain(kRigPrompt).tokens);
  EXPECT_EQ(answer.stats.offline_tokens, answer.tokens.size());
}

// The client does not keep resending everything.
TEST(ResyncErrorTest, GivesUpOnServerThatKeepsForgetting) {
  for (const std::uint32_t request : {1u, 3u}) {
    GenerationRig rig(
        {.tree = kSmallTree,
         .tokens_max = 12,
         .resync_wait = std::chrono::milliseconds(100),
         .faults = {{.request = request, .kind = LinkFault::Kind::forgetful, .wait_calls = 0}}});
    const Answer answer = rig.answer(kRigPrompt);
    EXPECT_EQ(answer.tokens, rig.plain(kRigPrompt).tokens);
    EXPECT_GT(answer.count(Provenance::offline), 0u);
    EXPECT_LT(rig.link().request_count(), 12u);

    GenerationRig plain(
        {.drafter = ToyDrafter::none,
         .tree = std::nullopt,
         .resync_wait = 0s,
         .faults = {{.request = request, .kind = LinkFault::Kind::forgetful, .wait_calls = 0}}});
    EXPECT_TRUE(fails_with(plain.try_answer(kRigPrompt), Errc::refused));
    EXPECT_LE(plain.link().request_count(), request + 2);
  }
}

TEST(ResyncErrorTest, ReportsReplacedServerOnceAndStopsWaiting) {
  GenerationRig rig(
      {.faults = {{.request = 3, .kind = LinkFault::Kind::replaced, .wait_calls = 4}}});
  const Answer answer = rig.answer(kRigPrompt);
  EXPECT_GT(answer.count(Provenance::offline), 0u);
  EXPECT_EQ(rig.listener().states, (std::vector{ClientState::offline, ClientState::offline}));
  EXPECT_EQ(rig.listener().why, "another model");
}

// Only retries over time show when it has capacity again.
TEST(ResyncErrorTest, RetriesFullServerWhileAnswerAwaitsCheck) {
  GenerationRig rig(
      {.tree = kSmallTree,
       .tokens_max = 12,
       .faults = {{.request = 1, .kind = LinkFault::Kind::refused, .wait_calls = 0},
                  {.request = 2, .kind = LinkFault::Kind::refused, .wait_calls = 0}}});
  Generation& generation = rig.generation();
  generation.begin(kRigPrompt);
  // Waits until the time that it asks for, as the engine does.
  while (!generation.over()) generation.go_on(rig.link().wait_event(generation.wait_end()));
  ASSERT_TRUE(generation.end());
  EXPECT_EQ(rig.listener().tokens, rig.plain(kRigPrompt).tokens);
  for (const Provenance provenance : rig.listener().provenance) {
    EXPECT_EQ(provenance, Provenance::verified);
  }
  EXPECT_GT(generation.stats().offline_tokens, 0u);
  EXPECT_LT(generation.stats().elapsed, 1s);
}

// The reason for the refusal may be gone by the next answer or the next check.
TEST(ResyncErrorTest, NextAnswerOrCheckReopensClosedLink) {
  const GenerationRig::Options options{
      .faults = {{.request = 3, .kind = LinkFault::Kind::replaced, .wait_calls = 4}}};
  GenerationRig rig(options);
  Tokens prompt = kRigPrompt;
  const Answer alone = rig.answer(prompt);
  EXPECT_GT(alone.count(Provenance::offline), 0u);
  prompt.insert(prompt.end(), alone.tokens.begin(), alone.tokens.end());
  prompt.push_back(kRigPrompt.front());
  const Answer next = rig.answer(prompt);
  EXPECT_EQ(next.tokens, rig.plain(prompt).tokens);
  EXPECT_EQ(next.count(Provenance::verified), next.tokens.size());

  GenerationRig looked_at_again(options);
  looked_at_again.answer(kRigPrompt);
  const auto checked = looked_at_again.settle();
  ASSERT_TRUE(checked);
  expect_verified_and_plain(looked_at_again, *checked);
}

// Otherwise a server that needs longer than the deadline for a prompt would never finish it.
TEST(ResyncResumeTest, DoesNotRecomputePromptAfterLateVerdict) {
  for (const ToyDrafter drafter : {ToyDrafter::moa_tli1, ToyDrafter::twin}) {
    GenerationRig rig(
        {.drafter = drafter,
         .faults = {{.request = 1, .kind = LinkFault::Kind::silence, .wait_calls = 5}}});
    EXPECT_EQ(rig.answer(kRigPrompt).tokens, rig.plain(kRigPrompt).tokens);
    const auto again = std::ranges::find_if(
        rig.requests().begin() + 1, rig.requests().end(),
        [](const auto& request) { return std::holds_alternative<wire::Prefill>(request); });
    ASSERT_NE(again, rig.requests().end());
    EXPECT_EQ(std::get<wire::Prefill>(*again).base_length, kRigPrompt.size());
    EXPECT_EQ(std::get<wire::Prefill>(*again).tokens.size(),
              std::get<wire::Prefill>(*again).provisional_count);
  }
}

// The session lives on: a short break costs only the requests in flight, without a second prompt.
TEST(ResyncResumeTest, ResumesKeptSessionWithoutPrefill) {
  GenerationRig rig(
      {.drafter = ToyDrafter::moa_tli1,
       .faults = {{.request = 4, .kind = LinkFault::Kind::lost_answer, .wait_calls = 3}}});
  rig.answer(kRigPrompt);
  std::uint32_t resumes = 0;
  for (std::size_t i = 1; i < rig.requests().size(); ++i) {
    EXPECT_FALSE(std::holds_alternative<wire::Prefill>(rig.requests()[i]));
    if (const auto* resume = std::get_if<wire::Resume>(&rig.requests()[i])) {
      ++resumes;
      EXPECT_GE(resume->verified_length, kRigPrompt.size());
      EXPECT_GE(resume->activations_from + 1, kRigPrompt.size());
    }
  }
  EXPECT_EQ(resumes, 1u);
}

// Likewise if it was forgotten before, on a working connection.
TEST(ResyncResumeTest, ResumesRefilledSession) {
  GenerationRig rig(
      {.drafter = ToyDrafter::moa_tli1,
       .faults = {{.request = 2, .kind = LinkFault::Kind::forgotten, .wait_calls = 0},
                  {.request = 4, .kind = LinkFault::Kind::lost_answer, .wait_calls = 3}}});
  EXPECT_EQ(rig.answer(kRigPrompt).tokens, rig.plain(kRigPrompt).tokens);
  const auto count = [&](auto is_kind) { return std::ranges::count_if(rig.requests(), is_kind); };
  using Request = testing::SeenRequest;
  EXPECT_EQ(count([](const Request& r) { return std::holds_alternative<wire::Prefill>(r); }), 2);
  EXPECT_EQ(count([](const Request& r) { return std::holds_alternative<wire::Resume>(r); }), 1);
}

}  // namespace
}  // namespace edgedraft::client
