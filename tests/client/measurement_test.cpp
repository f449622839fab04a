#include <gtest/gtest.h>

#include <algorithm>

#include "tests/client/generation_rig.h"

// Support for experiments: a link that ends at a token, and a record of each cycle.
namespace edgedraft::testing {
namespace {

const Tokens kPrompt{5, 9, 13, 2, 7};

TEST(OfflineAfterTest, CutsLinkAfterExactTokenCount) {
  for (const ToyDrafter drafter : {ToyDrafter::twin, ToyDrafter::moa_tli0, ToyDrafter::moa_tli1}) {
    for (const std::uint32_t cut : {1u, 2u, 7u, 20u}) {
      GenerationRig rig({.drafter = drafter, .tokens_max = 30, .offline_after = cut});
      const Tokens plain = rig.plain(kPrompt).tokens;
      const Answer answer = rig.answer(kPrompt);
      if (plain.size() <= cut) continue;
      EXPECT_EQ(answer.count(Provenance::verified), cut) << name_of(drafter);
      EXPECT_EQ(answer.count(Provenance::offline), answer.tokens.size() - cut);
      EXPECT_TRUE(std::equal(plain.begin(), plain.begin() + cut, answer.tokens.begin()));
      EXPECT_EQ(answer.stats.resyncs, 0u);
      // The twin is the target, so its offline text is the same.
      if (drafter == ToyDrafter::twin) {
        EXPECT_EQ(answer.tokens, plain);
      }
    }
  }
}

TEST(OfflineAfterTest, SendsNothingAfterCut) {
  GenerationRig rig({.drafter = ToyDrafter::moa_tli0, .tokens_max = 30, .offline_after = 1});
  const Answer answer = rig.answer(kPrompt);
  EXPECT_EQ(answer.count(Provenance::verified), 1u);
  ASSERT_EQ(rig.requests().size(), 1u);
  EXPECT_TRUE(std::holds_alternative<wire::Prefill>(rig.requests()[0]));
  EXPECT_FALSE(rig.settle());  // and nothing is checked afterwards
}

TEST(OfflineAfterTest, LeavesShorterAnswersWhole) {
  GenerationRig rig({.tokens_max = 6, .offline_after = 50});
  EXPECT_EQ(rig.answer(kPrompt).tokens, rig.plain(kPrompt).tokens);
}

TEST(CycleRecordTest, RecordsSumToAnswer) {
  GenerationRig rig({.drafter = ToyDrafter::noisy, .tokens_max = 30});
  const Answer answer = rig.answer(kPrompt);
  std::uint32_t tokens = 0;
  std::uint32_t accepted = 0;
  std::uint32_t drafts = 0;
  Duration at{};
  for (const CycleRecord& cycle : rig.cycles()) {
    tokens += cycle.tokens;
    accepted += cycle.accepted;
    drafts += cycle.kind == CycleRecord::Kind::draft ? 1 : 0;
    EXPECT_EQ(cycle.answer_tokens, tokens);
    EXPECT_GE(cycle.at, at);
    at = cycle.at;
  }
  EXPECT_EQ(tokens, answer.tokens.size());
  EXPECT_EQ(accepted, answer.stats.accepted);
  EXPECT_EQ(drafts, answer.stats.cycles);
  ASSERT_FALSE(rig.cycles().empty());
  EXPECT_EQ(rig.cycles().front().kind, CycleRecord::Kind::prompt);
  EXPECT_EQ(rig.cycles().front().rows, kPrompt.size());
}

TEST(CycleRecordTest, RecordsIncludeOutages) {
  GenerationRig rig(
      {.drafter = ToyDrafter::twin,
       .tokens_max = 30,
       .faults = {{.request = 3, .kind = LinkFault::Kind::lost_request, .wait_calls = 5}}});
  const Answer answer = rig.answer(kPrompt);
  std::vector<ClientState> states;
  std::uint32_t offline = 0;
  for (const CycleRecord& cycle : rig.cycles()) {
    if (cycle.kind == CycleRecord::Kind::state) states.push_back(cycle.state);
    offline += cycle.kind == CycleRecord::Kind::offline ? 1 : 0;
  }
  EXPECT_EQ(states, rig.listener().states);
  ASSERT_FALSE(states.empty());
  EXPECT_EQ(states.front(), ClientState::offline);
  EXPECT_EQ(offline, answer.stats.offline_tokens);
}

}  // namespace
}  // namespace edgedraft::testing
