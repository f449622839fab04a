#include <gtest/gtest.h>

#include "server/sessions/target_session.h"
#include "shared/base/random.h"
#include "shared/drafting/independent/independent_network.h"
#include "shared/drafting/network_drafter.h"
#include "tests/support/family_models.h"

namespace edgedraft::server {
namespace {

using testing::FamilyModel;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kFamilyContext = 256;
constexpr std::uint32_t kCount = 40;  // tokens of an answer

// Sessions of a model of each family. The model drafts for itself, so many drafts are accepted.
class FamilySessionTest : public ::testing::TestWithParam<std::string> {
 protected:
  TargetSession session() {
    return {model_.decoder(), kFamilyContext, [](std::uint32_t) { return false; }};
  }

  Tokens random_prompt(std::uint64_t seed, std::uint32_t count) {
    Random random(seed);
    Tokens tokens(count);
    for (std::uint32_t& token : tokens) {
      token = static_cast<std::uint32_t>(random.below(model_.decoder().config().vocabulary_count));
    }
    return tokens;
  }

  // Goes on until the session has `count` tokens, without drafts.
  static void decode(TargetSession& session, std::size_t count) {
    while (session.tokens().size() < count) session.verify(DraftTree()).value();
  }

  Tokens plain(const Tokens& prompt, const SamplingParams& sampling) {
    TargetSession target = session();
    target.prefill({.base_count = 0, .tokens = prompt, .sampling = sampling}).value();
    decode(target, prompt.size() + kCount);
    return {target.tokens().begin(), target.tokens().end()};
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  FamilyModel model_{*backend_, GetParam(), kFamilyContext, testing::Weights::as_stored};
};

SamplingParams at(float temperature) {
  return {.temperature = temperature, .seed = 7};
}

TEST_P(FamilySessionTest, DraftsGivePlainDecodingsTokens) {
  FamilyModel drafting(*backend_, GetParam(), kFamilyContext, testing::Weights::as_stored);
  const auto prompt = random_prompt(1, 30);
  for (const float temperature : {0.0f, 0.8f}) {
    const Tokens expected = plain(prompt, at(temperature));
    for (const TreeShape& shape : {TreeShape{.breadth = 1, .depth = 5, .nodes = 5},
                                   TreeShape{.breadth = 4, .depth = 4, .nodes = 24}}) {
      IndependentNetwork network(*backend_, drafting.decoder().config(), drafting.tensors(),
                                 kFamilyContext);
      TargetSession target = session();
      target.prefill({.base_count = 0, .tokens = prompt, .sampling = at(temperature)}).value();
      std::uint32_t accepted = 0;
      while (target.tokens().size() < expected.size()) {
        network.commit(target.tokens().subspan(network.committed_count()));
        const DraftTree tree = grow_tree(network, shape);
        accepted += static_cast<std::uint32_t>(target.verify(tree).value().path.size());
      }
      EXPECT_TRUE(std::ranges::equal(target.tokens().first(expected.size()), expected))
          << "temperature " << temperature << ", breadth " << shape.breadth;
      EXPECT_GT(accepted, temperature == 0.0f ? kCount / 2 : kCount / 8)
          << "temperature " << temperature;
    }
  }
}

// An answer goes on from an earlier place: a conversation that is edited.
TEST_P(FamilySessionTest, EditedPromptGivesAFreshSessionsTokens) {
  const Tokens prompt = random_prompt(2, 40);
  TargetSession target = session();
  target.prefill({.base_count = 0, .tokens = prompt, .sampling = at(0)}).value();
  decode(target, prompt.size() + 9);
  Tokens edited(target.tokens().begin(), target.tokens().begin() + 33);
  const Tokens added = random_prompt(3, 5);
  target.prefill({.base_count = 33, .tokens = added, .sampling = at(0)}).value();
  edited.insert(edited.end(), added.begin(), added.end());
  decode(target, edited.size() + kCount);
  EXPECT_TRUE(std::ranges::equal(target.tokens(), plain(edited, at(0))));
}

// A next prompt that drops a part of the answer runs only what follows the last prompt.
TEST_P(FamilySessionTest, ReplacedAnswerKeepsThePromptsWork) {
  const Tokens prompt = random_prompt(6, 40);
  TargetSession target = session();
  target.prefill({.base_count = 0, .tokens = prompt, .sampling = at(0)}).value();
  decode(target, prompt.size() + 9);
  Tokens next(target.tokens().begin(), target.tokens().begin() + 43);
  const Tokens added = random_prompt(7, 5);
  target.begin({.base_count = 43, .tokens = added, .sampling = at(0)}).value();
  EXPECT_GE(target.valid_count(), prompt.size() - 1);
  target.abandon();
  target.prefill({.base_count = 43, .tokens = added, .sampling = at(0)}).value();
  next.insert(next.end(), added.begin(), added.end());
  decode(target, next.size() + kCount);
  EXPECT_TRUE(std::ranges::equal(target.tokens(), plain(next, at(0))));
}

// Text that a drafter wrote offline is checked: the right part stays.
TEST_P(FamilySessionTest, ChecksTextWrittenOffline) {
  const Tokens prompt = random_prompt(4, 20);
  const Tokens expected = plain(prompt, at(0.8f));
  for (const std::uint32_t right : {0u, 6u, 12u}) {
    Tokens given(expected.begin(), expected.begin() + 20 + right);
    for (std::uint32_t i = 0; i < 4; ++i) given.push_back((expected[20 + right + i] + 1) % 300);
    TargetSession target = session();
    const PrefillOutcome outcome = target
                                       .prefill({.base_count = 0,
                                                 .tokens = given,
                                                 .provisional_count = right + 4,
                                                 .sampling = at(0.8f)})
                                       .value();
    EXPECT_EQ(outcome.accepted_count, right);
    decode(target, expected.size());
    EXPECT_TRUE(std::ranges::equal(target.tokens(), expected)) << right << " right tokens";
  }
}

// A request that is given up between passes leaves a session that works.
TEST_P(FamilySessionTest, AbandonedPromptLeavesAWorkingSession) {
  const Tokens prompt = random_prompt(5, 60);
  TargetSession target = session();
  target.begin({.base_count = 0, .tokens = prompt, .sampling = at(0)}).value();
  const SequenceRows rows = target.begin_pass(20);
  model_.decoder().forward(std::span(&rows, 1));
  target.finish_pass({}, {});
  const SequenceRows more = target.begin_pass(20);
  model_.decoder().forward(std::span(&more, 1));
  target.abandon();
  target.prefill({.base_count = 0, .tokens = prompt, .sampling = at(0)}).value();
  decode(target, prompt.size() + kCount);
  EXPECT_TRUE(std::ranges::equal(target.tokens(), plain(prompt, at(0))));
}

std::string case_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Families, FamilySessionTest, ::testing::ValuesIn(testing::family_models()),
                         case_name);

}  // namespace
}  // namespace edgedraft::server
