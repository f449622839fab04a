// A device that draws its drafts from its drafter's law.
#include <gtest/gtest.h>

#include "shared/speculative/sampling.h"
#include "tests/client/generation_rig.h"
#include "tests/client/simulated_device.h"
#include "tests/support/law_of_answers.h"

namespace edgedraft {
namespace {

using namespace std::chrono_literals;
using testing::Answer;
using testing::GenerationRig;
using testing::KnownLogits;
using testing::kRigContext;
using testing::LawOfAnswers;
using testing::LinkFault;
using testing::name_of;
using testing::SimulatedDevice;
using testing::Tokens;
using testing::ToyDecoder;
using testing::ToyDrafter;

const Tokens kSamplingPrompt{5, 17, 40, 9, 33};

SamplingParams drawn(float temperature, std::uint64_t seed = 1) {
  return {.temperature = temperature, .top_k = 6, .seed = seed, .drawn_drafts = true};
}

std::vector<wire::Draft> drafts(const GenerationRig& rig) {
  std::vector<wire::Draft> found;
  for (const testing::SeenRequest& request : rig.requests()) {
    if (const auto* draft = std::get_if<wire::Draft>(&request)) found.push_back(*draft);
  }
  return found;
}

class DrawnDraftTest : public ::testing::TestWithParam<ToyDrafter> {};

TEST_P(DrawnDraftTest, AnswersHaveTheTargetsLaw) {
  const std::unique_ptr<Backend> backend = make_cpu_backend({.threads = 1});
  const ToyDecoder toy{6};  // the rig's
  Decoder target(*backend, toy.config, toy.tensors, kRigContext);
  KnownLogits logits(target, *backend);
  LawOfAnswers law(3, [&](const Tokens& answer) {
    Tokens text = kSamplingPrompt;
    text.insert(text.end(), answer.begin(), answer.end());
    return Sampler(drawn(1.5f)).law(logits.behind(text));
  });
  GenerationRig rig({.drafter = GetParam(),
                     .tree = TreeShape{.breadth = 4, .depth = 3, .nodes = 20},
                     .tokens_max = 6,
                     .row_budget = 9});
  std::uint32_t accepted = 0;
  for (std::uint64_t seed = 0; seed < LawOfAnswers::draws() / 2; ++seed) {
    rig.generation().set({.tokens_max = 6, .sampling = drawn(1.5f, seed)});
    const Answer answer = rig.answer(kSamplingPrompt);
    accepted += answer.stats.accepted;
    law.add(answer.tokens);
  }
  law.expect();
  EXPECT_GT(accepted, 0u);
}

TEST_P(DrawnDraftTest, EveryTreeBringsItsLaws) {
  GenerationRig rig({.drafter = GetParam(), .sampling = drawn(1.0f), .law_tokens_max = 5});
  rig.answer(kSamplingPrompt);
  const auto sent = drafts(rig);
  ASSERT_FALSE(sent.empty());
  std::size_t trees = 0;
  for (const wire::Draft& draft : sent) {
    EXPECT_EQ(draft.laws.empty(), draft.tokens.empty());
    for (const LawEntries& law : draft.laws) EXPECT_LE(law.size(), 5u) << "as the server offers";
    trees += draft.laws.size();
  }
  EXPECT_GT(trees, 0u);
}

TEST_P(DrawnDraftTest, AGreedyAnswerIsThePlainOneAndNeedsNoLaws) {
  GenerationRig rig({.drafter = GetParam(), .sampling = drawn(0.0f), .law_tokens_max = 0});
  const Answer answer = rig.answer(kSamplingPrompt);
  for (const wire::Draft& draft : drafts(rig)) EXPECT_TRUE(draft.laws.empty());
  EXPECT_EQ(answer.tokens, rig.plain(kSamplingPrompt).tokens);
}

INSTANTIATE_TEST_SUITE_P(Drafters, DrawnDraftTest,
                         ::testing::Values(ToyDrafter::moa_tli1, ToyDrafter::medusa_tree,
                                           ToyDrafter::independent, ToyDrafter::twin_reduced),
                         [](const auto& drafter) { return name_of(drafter.param); });

// Tables have no law to draw from: what they propose is verified as ever.
TEST(DrawnDraftsTest, TreesWithoutLawsAreMatched) {
  for (const ToyDrafter drafter : {ToyDrafter::lookup, ToyDrafter::moa_merged, ToyDrafter::noisy}) {
    SCOPED_TRACE(name_of(drafter));
    GenerationRig rig({.drafter = drafter, .sampling = drawn(1.0f)});
    const Answer answer = rig.answer(kSamplingPrompt);
    for (const wire::Draft& draft : drafts(rig)) EXPECT_TRUE(draft.laws.empty());
    EXPECT_EQ(answer.tokens, rig.plain(kSamplingPrompt).tokens);
  }
}

TEST(DrawnDraftsTest, AServerThatTakesNoLawsEndsTheAnswerWithAReason) {
  GenerationRig rig({.sampling = drawn(1.0f), .law_tokens_max = 0});
  const auto end = rig.try_answer(kSamplingPrompt);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Errc::unsupported);
  EXPECT_NE(end.error().message.find("--draw drawn"), std::string::npos);
}

// It says so once. What the device has written until then stays, and nobody is waited for.
TEST(DrawnDraftsTest, AServerThatComesBackAndTakesNoLawsIsNotAskedAgainAndAgain) {
  GenerationRig rig(
      {.sampling = drawn(1.0f),
       .law_tokens_max = 0,
       .faults = {{.request = 0, .kind = LinkFault::Kind::lost_request, .wait_calls = 4}}});
  rig.cancel_at(2000);
  const Answer answer = rig.answer(kSamplingPrompt);
  EXPECT_NE(answer.end, AnswerEnd::cancelled) << "it went round in circles";
  EXPECT_GT(answer.tokens.size(), 2u);
  EXPECT_EQ(answer.count(Provenance::offline), answer.tokens.size());
  EXPECT_EQ(rig.listener().states,
            (std::vector{ClientState::offline, ClientState::resyncing, ClientState::offline}));
  EXPECT_NE(rig.listener().why.find("--draw drawn"), std::string::npos) << rig.listener().why;
  EXPECT_LT(answer.stats.elapsed, 10s);
  EXPECT_FALSE(rig.settle()) << "there is still nobody who can check it";
}

TEST(DrawnDraftsTest, ALostLinkLeavesWhatWasVerified) {
  for (const auto kind : {LinkFault::Kind::lost_request, LinkFault::Kind::lost_answer,
                          LinkFault::Kind::forgotten, LinkFault::Kind::refused}) {
    GenerationRig::Options options{.sampling = drawn(1.0f)};
    const Tokens undisturbed = GenerationRig(options).answer(kSamplingPrompt).tokens;
    options.faults = {{.request = 4, .kind = kind, .wait_calls = 3}};
    GenerationRig rig(options);
    const Answer answer = rig.answer(kSamplingPrompt);
    ASSERT_GT(rig.cycles().size(), 3u);
    const std::uint32_t verified = rig.cycles()[2].answer_tokens;  // by three requests
    ASSERT_GT(verified, 0u);
    ASSERT_GE(answer.tokens.size(), verified);
    EXPECT_TRUE(
        std::equal(undisturbed.begin(), undisturbed.begin() + verified, answer.tokens.begin()));
    EXPECT_EQ(answer.count(Provenance::offline), 0u);
  }
}

// A server that would go on by itself is not let: hints carry no laws.
TEST(DrawnDraftsTest, NoHintsAreSent) {
  for (const bool draws : {false, true}) {
    SimulatedDevice device({.overlap = Overlap::on});
    device.ask(device.now(), {.prompt = kSamplingPrompt,
                              .terms = {.tokens_max = 30,
                                        .sampling = {.temperature = 1.0f, .drawn_drafts = draws}}});
    device.run(30s);
    EXPECT_EQ(device.hint_count() == 0, draws);
  }
}

}  // namespace
}  // namespace edgedraft
