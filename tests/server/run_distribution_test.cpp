// Sampled runs follow the target's distribution over seeds, even if the device's guesses track the
// noise.
#include <gtest/gtest.h>

#include "shared/speculative/sampling.h"
#include "tests/server/run_rig.h"
#include "tests/support/answer_distribution.h"

namespace edgedraft::server {
namespace {

using testing::AnswerDistribution;
using testing::kAnswerTokens;
using testing::KnownLogits;

class RunDistributionTest : public RunTest {
 protected:
  static constexpr std::size_t kClients = 8;  // their runs share passes and rows

  // Six tokens may follow any text.
  SamplingParams sampling(std::uint64_t seed) const {
    return {.temperature = 1.5f, .top_k = 6, .seed = seed};
  }

  // Guesses of a good drafter after `text`: the tokens that will be drawn, with one in three wrong.
  Tokens guesses_behind(Tokens text, std::uint64_t seed, Random& random) {
    Tokens guesses;
    for (std::size_t i = text.size() - kPromptCount; i < kAnswerTokens; ++i) {
      const std::uint32_t drawn = Sampler(sampling(seed)).choose(logits_.behind(text), text.size());
      guesses.push_back(random.below(3) == 0 ? (drawn + 1) % kToyVocabulary : drawn);
      if (guesses.back() != drawn || drawn == kToyEndToken) break;
      text.push_back(drawn);
    }
    return guesses;
  }

  KnownLogits logits_{decoder_, *backend_};
};

TEST_F(RunDistributionTest, AnswersFollowTargetDistributionWithAnyGuesses) {
  const std::uint64_t runs = AnswerDistribution::draws();
  const Tokens prompt = prompt_of(0);
  AnswerDistribution distribution(kAnswerTokens, [&](const Tokens& answer) {
    return Sampler(sampling(0)).distribution(logits_.behind(testing::joined(prompt, answer)));
  });
  std::uint64_t hinted = 0;
  std::uint64_t guessed = 0;  // accepted guesses among them
  Random random(1);
  for (std::size_t i = 0; i < kClients; ++i) connect();
  for (std::uint64_t seed = 0; seed < runs; seed += kClients) {
    for (std::size_t i = 0; i < kClients; ++i) {
      ASSERT_TRUE(clients_[i]->begin(prompt, sampling(seed + i), {.credit = kPromptCount + 1}));
    }
    run_until_idle();
    for (std::size_t i = 0; i < kClients; ++i) {
      HintingClient& client = *clients_[i];
      if (!client.listen()) continue;
      const Tokens guesses = guesses_behind(client.text(), seed + i, random);
      hinted += guesses.size();
      wire::Hints hints = client.chain(guesses, static_cast<std::uint8_t>(random.below(20)));
      hints.credit = kPromptCount + kAnswerTokens;
      ASSERT_TRUE(client.send(hints));
    }
    run_until_idle();
    for (const auto& client : clients_) {
      client->listen();
      for (const wire::Verdict& verdict : std::exchange(client->verdicts, {})) {
        guessed += verdict.hinted;
      }
      distribution.add(client->answer());
    }
  }
  EXPECT_GT(guessed, hinted / 3);
  EXPECT_LT(guessed, hinted - hinted / 10);
  distribution.expect();
}

}  // namespace
}  // namespace edgedraft::server
