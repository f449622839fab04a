// Answers that the server writes alone, verdict by verdict.
#include <gtest/gtest.h>

#include "client/generation/generation.h"
#include "tests/client/generation_rig.h"

namespace edgedraft {
namespace {

using testing::Answer;
using testing::expect_same;
using testing::GenerationRig;
using testing::kRigPrompt;
using testing::LinkFault;
using testing::name_of;
using testing::Tokens;
using testing::ToyDrafter;

GenerationRig::Options plain_options() {
  return {.drafter = ToyDrafter::none, .tree = std::nullopt, .control = ControlMode::automatic};
}

// A server without room for drafts, so that the device lets it stream.
GenerationRig::Options crowded(ToyDrafter drafter) {
  return {.drafter = drafter,
          .tree = TreeShape{.breadth = 2, .depth = 2, .nodes = 4},
          .row_budget = 1,
          .control = ControlMode::automatic};
}

// One that is answered with more than `count` tokens.
Tokens talkative_prompt(GenerationRig& rig, std::size_t count) {
  Random random(1);
  for (;;) {
    Tokens prompt(3 + random.below(10));
    for (auto& t : prompt) t = static_cast<std::uint32_t>(3 + random.below(60));
    if (rig.plain(prompt).tokens.size() > count) return prompt;
  }
}

std::uint32_t drafts_in(const GenerationRig& rig) {
  std::uint32_t count = 0;
  for (const testing::SeenRequest& request : rig.requests()) {
    count += std::holds_alternative<wire::Draft>(request);
  }
  return count;
}

TEST(StreamingTest, APlainAnswerIsOneRequestBehindThePrompt) {
  for (const std::uint32_t step : {1u, 3u, 7u}) {
    for (const std::uint32_t tokens_max : {1u, 2u, 12u, 500u}) {
      for (const float temperature : {0.0f, 0.9f}) {
        SCOPED_TRACE(tokens_max);
        GenerationRig::Options options = plain_options();
        options.tokens_max = tokens_max;
        options.stream_step = step;
        options.sampling = {.temperature = temperature, .seed = 4};
        GenerationRig rig(options);
        const Answer answer = rig.answer(kRigPrompt);
        expect_same(answer, rig.plain(kRigPrompt));
        EXPECT_EQ(drafts_in(rig), tokens_max == 1 ? 0u : 1u);
        EXPECT_EQ(answer.stats.streamed_tokens, answer.tokens.size() - 1);
        EXPECT_EQ(answer.stats.cycle_tokens, answer.tokens.size() - 1);
        EXPECT_EQ(answer.stats.cycles, (answer.tokens.size() - 1 + step - 1) / step);
        EXPECT_EQ(answer.stats.target_calls, answer.stats.cycles + 1);
      }
    }
  }
}

TEST(StreamingTest, WithoutControlAPlainTokenIsARoundTrip) {
  GenerationRig::Options options = plain_options();
  options.control = ControlMode::off;
  options.tokens_max = 12;
  GenerationRig rig(options);
  EXPECT_EQ(rig.answer(kRigPrompt).stats.streamed_tokens, 0u);
  EXPECT_EQ(drafts_in(rig), 11u);
}

TEST(StreamingTest, ALostLinkInMidStreamIsWaitedForOrToldWhereThereIsNoDrafter) {
  GenerationRig::Options options = plain_options();
  options.faults = {
      {.request = 2, .kind = LinkFault::Kind::lost_request, .wait_calls = 3, .after_verdicts = 4}};
  GenerationRig waiting(options);
  EXPECT_EQ(waiting.answer(kRigPrompt).tokens, waiting.plain(kRigPrompt).tokens);

  options.resync_wait = Duration::zero();
  GenerationRig rig(options);
  const auto lost = rig.try_answer(kRigPrompt);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Errc::link_down);
}

TEST(StreamingTest, SilenceInMidStreamIsNoticed) {
  GenerationRig::Options options = plain_options();
  options.faults = {
      {.request = 2, .kind = LinkFault::Kind::silence, .wait_calls = 1000, .after_verdicts = 4}};
  options.resync_wait = Duration::zero();
  GenerationRig rig(options);
  const auto late = rig.try_answer(kRigPrompt);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::timed_out);
}

TEST(StreamingTest, ACancelledStreamLeavesTheNextAnswerRight) {
  for (std::uint32_t look = 1; look <= 12; ++look) {
    SCOPED_TRACE(look);
    GenerationRig rig(plain_options());
    rig.cancel_at(look);
    const Answer cut = rig.answer(kRigPrompt);
    EXPECT_EQ(cut.end, AnswerEnd::cancelled);
    const Tokens expected = rig.plain(kRigPrompt).tokens;
    ASSERT_LE(cut.tokens.size(), expected.size());
    EXPECT_TRUE(std::equal(cut.tokens.begin(), cut.tokens.end(), expected.begin()));
    Tokens next = kRigPrompt;
    next.insert(next.end(), cut.tokens.begin(), cut.tokens.end());
    next.push_back(50);
    expect_same(rig.answer(next), rig.plain(next));
  }
}

class DraftOrStreamTest : public ::testing::TestWithParam<ToyDrafter> {};

TEST_P(DraftOrStreamTest, ACrowdedServerStreams) {
  GenerationRig rig(crowded(GetParam()));
  const Answer answer = rig.answer(kRigPrompt);
  expect_same(answer, rig.plain(kRigPrompt));
  EXPECT_EQ(drafts_in(rig), 1u);
  EXPECT_EQ(answer.stats.streamed_tokens, answer.tokens.size() - 1);
  EXPECT_NE(answer.stats.streamed_because.find("row budget"), std::string::npos);
  // A device that is not going to draft asks for no activations of the next turn.
  const std::uint32_t chunks = rig.link().chunk_count();
  Tokens next = kRigPrompt;
  next.insert(next.end(), answer.tokens.begin(), answer.tokens.end());
  next.push_back(40);
  expect_same(rig.answer(next), rig.plain(next));
  EXPECT_EQ(rig.link().chunk_count(), chunks);
}

// Once there is room the stream ends, the device gets the activations that the stream left out, and
// drafts.
TEST_P(DraftOrStreamTest, DraftsAgainWhereRoomIsMade) {
  GenerationRig::Options options = crowded(GetParam());
  options.tokens_max = 80;
  options.room_from_verdict = 20;
  GenerationRig rig(options);
  const Tokens prompt = talkative_prompt(rig, 60);
  const Answer answer = rig.answer(prompt);
  expect_same(answer, rig.plain(prompt));
  EXPECT_GT(drafts_in(rig), 2u);
  EXPECT_GT(answer.stats.streamed_tokens, 30u);
  const auto catch_up = std::find_if(
      rig.requests().begin() + 1, rig.requests().end(),
      [](const testing::SeenRequest& r) { return std::holds_alternative<wire::Prefill>(r); });
  ASSERT_NE(catch_up, rig.requests().end());
  const auto& prefill = std::get<wire::Prefill>(*catch_up);
  EXPECT_EQ(prefill.tokens.size(), 0u);
  const bool has_memory = GetParam() != ToyDrafter::independent && GetParam() != ToyDrafter::twin;
  // Behind the prompt nothing had come.
  EXPECT_EQ(prefill.activations_from, has_memory ? prompt.size() : 0);
}

TEST_P(DraftOrStreamTest, FaultsInMidStreamLoseNothing) {
  for (const LinkFault::Kind kind :
       {LinkFault::Kind::lost_request, LinkFault::Kind::lost_answer, LinkFault::Kind::silence,
        LinkFault::Kind::forgotten, LinkFault::Kind::refused}) {
    for (const std::uint32_t verdicts : {1u, 5u, 20u}) {
      for (const std::uint32_t calls : {2u, 6u, 30u}) {
        SCOPED_TRACE(::testing::Message() << static_cast<int>(kind) << " after " << verdicts
                                          << " verdicts for " << calls);
        GenerationRig::Options options = crowded(GetParam());
        options.stream_step = 2;
        options.faults = {
            {.request = 2, .kind = kind, .wait_calls = calls, .after_verdicts = verdicts}};
        GenerationRig rig(options);
        expect_same(rig.answer(kRigPrompt), rig.plain(kRigPrompt));
        // And the next turn.
        Tokens next = kRigPrompt;
        next.push_back(40);
        expect_same(rig.answer(next), rig.plain(next));
      }
    }
  }
}

// Whatever the control decides from this rig's strange clock.
TEST_P(DraftOrStreamTest, AnswersAreThoseOfPlainDecoding) {
  for (const float temperature : {0.0f, 0.9f}) {
    for (const std::uint32_t budget : {0u, 3u}) {
      GenerationRig::Options options = crowded(GetParam());
      options.tokens_max = 500;
      options.row_budget = budget;
      options.sampling = {.temperature = temperature, .seed = 5};
      GenerationRig rig(options);
      const Answer answer = rig.answer(kRigPrompt);
      expect_same(answer, rig.plain(kRigPrompt));
      Tokens next = kRigPrompt;
      next.insert(next.end(), answer.tokens.begin(), answer.tokens.begin() + 5);
      expect_same(rig.answer(next), rig.plain(next));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Drafters, DraftOrStreamTest,
                         ::testing::Values(ToyDrafter::moa_tli0, ToyDrafter::moa_tli1,
                                           ToyDrafter::eagle, ToyDrafter::independent,
                                           ToyDrafter::twin),
                         [](const auto& drafter) { return name_of(drafter.param); });

}  // namespace
}  // namespace edgedraft
