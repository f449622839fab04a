#include "client/generation/generation.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/client/generation_rig.h"
#include "tests/client/scripted_link.h"

namespace edgedraft::client {
namespace {

using testing::Answer;
using testing::expect_same;
using testing::GenerationRig;
using testing::kRigContext;
using testing::kRigPrompt;
using testing::LinkFault;
using testing::Listener;
using testing::name_of;
using testing::RepeatingDrafter;
using testing::ScriptedLink;
using testing::Tokens;
using testing::ToyDrafter;

TEST(GenerationTest, GoodDrafterSavesTargetPasses) {
  GenerationRig rig({.drafter = ToyDrafter::twin, .tokens_max = 40});
  const Answer answer = rig.answer({5, 6, 7});
  ASSERT_GE(answer.tokens.size(), 20u);
  EXPECT_GT(answer.stats.acceptance_length(), 4.0);
  EXPECT_LT(answer.stats.target_calls, answer.tokens.size() / 3);
  EXPECT_EQ(answer.stats.target_calls, answer.stats.cycles + 1);
  EXPECT_EQ(answer.stats.cycle_tokens, answer.tokens.size() - 1);
  EXPECT_EQ(answer.stats.accepted + answer.stats.cycles, answer.stats.cycle_tokens);
}

TEST(GenerationTest, PlainDecodingDraftsNothingAndTakesOnePassPerToken) {
  GenerationRig rig({.drafter = ToyDrafter::none, .tree = std::nullopt, .tokens_max = 12});
  const Answer answer = rig.answer({5, 6, 7});
  EXPECT_EQ(answer.stats.drafted, 0u);
  EXPECT_EQ(answer.stats.acceptance_length(), 1.0);
  EXPECT_EQ(answer.stats.target_calls, answer.tokens.size());
}

TEST(GenerationTest, RefusesPromptThatFillsContext) {
  GenerationRig rig({});
  const auto end = rig.try_answer(Tokens(kRigContext, 5));
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Errc::context_full);
}

// Known tokens do not go up again, and their activations do not come down again.
class ConversationTest : public ::testing::TestWithParam<ToyDrafter> {};

TEST_P(ConversationTest, NextTurnSendsOnlyNewTokens) {
  GenerationRig rig({.drafter = GetParam(), .tokens_max = 10});
  Tokens history{5, 6, 7, 8};
  for (int turn = 0; turn < 4; ++turn) {
    SCOPED_TRACE(turn);
    const std::size_t sent_before = rig.requests().size();
    const Answer answer = rig.answer(history);
    expect_same(answer, rig.plain(history));
    if (turn > 0) {
      const auto& prompt = std::get<wire::Prefill>(rig.requests()[sent_before]);
      EXPECT_EQ(prompt.tokens.size(), 3u);
      EXPECT_EQ(prompt.base_length + 3, history.size());
    }
    history.insert(history.end(), answer.tokens.begin(), answer.tokens.end());
    for (const std::uint32_t token : {30u, 31u, 32u}) history.push_back(token);
  }
}

const Tokens kTwentyTokens{5,  6,  7,  8,  9,  10, 11, 12, 13, 14,
                           15, 16, 17, 18, 19, 20, 21, 22, 23, 24};

TEST(GenerationTest, FirstDraftUsesNewestActivationsWithoutWaitingForAll) {
  GenerationRig rig({.drafter = ToyDrafter::moa_tli0});
  expect_same(rig.answer(kTwentyTokens), rig.plain(kTwentyTokens));
  ASSERT_FALSE(rig.chunks_before_drafts().empty());
  EXPECT_EQ(rig.chunks_before_drafts().front(), 1u) << "one of three chunks";
}

TEST(GenerationTest, WaitsForMissingActivationsNoLongerThanForVerdict) {
  GenerationRig rig({.drafter = ToyDrafter::moa_tli0, .holds_rows_back = true});
  const Answer answer = rig.answer(kTwentyTokens);
  expect_same(answer, rig.plain(kTwentyTokens));
  EXPECT_EQ(answer.stats.offline_tokens, 0u);
  // One millisecond per wait: one per cycle, two for the prompt and two for its activations.
  EXPECT_LE(answer.stats.elapsed, std::chrono::milliseconds(answer.stats.cycles + 4));
}

// An answer may end before its prompt's activations arrive.
TEST(GenerationTest, LateActivationsDoNotEnterNextAnswer) {
  const auto answered = [](GenerationRig& rig) {
    rig.generation().set({.tokens_max = 1});
    rig.answer(kTwentyTokens);
    rig.generation().set({.tokens_max = 12, .route = WritingSide::device});
    return rig.try_answer({60, 61, 62, 63, 50}).has_value();
  };
  for (const ToyDrafter drafter :
       {ToyDrafter::moa_tli0, ToyDrafter::moa_tli1, ToyDrafter::moa_tli3}) {
    SCOPED_TRACE(name_of(drafter));
    GenerationRig late({.drafter = drafter, .rows_after_calls = 2});
    GenerationRig never({.drafter = drafter, .holds_rows_back = true});
    // Without activations of its own the drafter refuses.
    EXPECT_FALSE(answered(late));
    EXPECT_FALSE(answered(never));
    EXPECT_EQ(late.link().chunk_count(), 3u) << "the rows arrived during the second answer";
  }
}

// Text written offline fills the answer. The server's next token would end the answer otherwise,
// and equals the last one.
TEST(GenerationTest, IgnoresEndingOfUnwrittenToken) {
  const Tokens prompt{5, 6};
  constexpr std::uint32_t kLength = 3;
  ScriptedLink link;
  link.told.emplace_back(Error{Errc::link_down, "the server is away"});
  Listener listener;
  RepeatingDrafter drafter;
  Instant now{};
  Generation generation({.link = link,
                         .drafter = &drafter,
                         .observer = listener,
                         .is_end = [](std::uint32_t) { return false; },
                         .now = [&] { return now += std::chrono::milliseconds(1); }},
                        {.tree = TreeShape{},
                         .tokens_max = kLength,
                         .context_count = 0,
                         .sampling = {},
                         .deadline = std::chrono::seconds(1),
                         .resync = wire::ResyncPolicy::check,
                         .resync_wait = std::chrono::minutes(1)});
  generation.begin(prompt);
  const auto go_on = [&] { generation.go_on(link.wait_event(Instant::min())); };
  while (generation.ledger().count() < prompt.size() + kLength) go_on();
  link.told.emplace_back(ClientEvent(Welcomed{{.context_count = 100}}));
  go_on();
  ASSERT_EQ(link.sent.size(), 1u);
  link.told.emplace_back(ClientEvent(
      VerdictReceived{.to = VerdictReceived::To::prefill,
                      .verdict = {.round = 1,
                                  .length = static_cast<std::uint32_t>(prompt.size()) + kLength + 1,
                                  .next = RepeatingDrafter::kToken,
                                  .accepted_count = kLength,
                                  .ending = wire::Ending::stop}}));
  go_on();
  ASSERT_TRUE(generation.over());
  EXPECT_EQ(generation.end().value(), GenerationEnd::tokens_max);
  EXPECT_EQ(listener.tokens, Tokens(kLength, RepeatingDrafter::kToken));
}

TEST(GenerationTest, CancelledAnswerIsNeitherCheckedNorContinued) {
  GenerationRig rig(
      {.tree = TreeShape{.breadth = 2, .depth = 2, .nodes = 4},
       .tokens_max = 12,
       .resync_wait = Duration::zero(),
       .faults = {{.request = 2, .kind = LinkFault::Kind::lost_answer, .wait_calls = 1'000'000}}});
  Generation& generation = rig.generation();
  generation.begin(kRigPrompt);
  while (!generation.over() && generation.stats().offline_tokens < 2) {
    generation.go_on(rig.link().wait_event(generation.wait_end()));
  }
  ASSERT_FALSE(generation.over());
  generation.cancel();
  const std::uint32_t requests = rig.link().request_count();
  const Tokens seen = rig.listener().tokens;
  rig.link().end_outage();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(rig.settle());
  EXPECT_EQ(rig.link().request_count(), requests);
  EXPECT_EQ(rig.listener().tokens, seen);
  EXPECT_EQ(*generation.end(), GenerationEnd::cancelled);
  // The printed text is part of the conversation.
  Tokens next = kRigPrompt;
  next.insert(next.end(), seen.begin(), seen.end());
  next.push_back(33);
  EXPECT_EQ(rig.answer(next).tokens, rig.plain(next).tokens);
}

// Even if the target replaces all of the text shown first.
TEST(GenerationTest, FirstTokenTimeIgnoresLaterRewrites) {
  std::uint32_t rewritten = 0;
  for (const ToyDrafter drafter : {ToyDrafter::independent, ToyDrafter::hashed}) {
    GenerationRig rig(
        {.drafter = drafter,
         .tree = TreeShape{.breadth = 2, .depth = 2, .nodes = 4},
         .tokens_max = 12,
         .faults = {{.request = 1, .kind = LinkFault::Kind::lost_request, .wait_calls = 40}}});
    const Answer answer = rig.answer(kRigPrompt);
    EXPECT_EQ(answer.tokens, rig.plain(kRigPrompt).tokens);
    EXPECT_GT(answer.stats.elapsed, std::chrono::milliseconds(40));
    EXPECT_LT(answer.stats.first_token_elapsed, std::chrono::milliseconds(20));
    if (answer.stats.rewritten_tokens == answer.stats.offline_tokens) ++rewritten;
  }
  EXPECT_GT(rewritten, 0u) << "no check rewrote the first token";
}

INSTANTIATE_TEST_SUITE_P(Drafters, ConversationTest,
                         ::testing::Values(ToyDrafter::moa_tli0, ToyDrafter::moa_tli3,
                                           ToyDrafter::eagle, ToyDrafter::eagle3, ToyDrafter::mtp,
                                           ToyDrafter::medusa_tree, ToyDrafter::multistream,
                                           ToyDrafter::twin, ToyDrafter::hashed, ToyDrafter::lookup,
                                           ToyDrafter::moa_merged),
                         [](const auto& drafter) { return name_of(drafter.param); });

}  // namespace
}  // namespace edgedraft::client
