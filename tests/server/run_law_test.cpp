// What the seeds of runs write has the target's law, however the device's guesses follow the noise.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "shared/speculative/sampling.h"
#include "tests/server/run_rig.h"

namespace edgedraft {
namespace {

constexpr std::size_t kAnswerTokens = 3;
constexpr std::size_t kClients = 8;  // whose runs share passes, and rows

class RunLawTest : public RunTest, public ::testing::WithParamInterface<Draw> {
 protected:
  // Six tokens may follow any text.
  SamplingParams sampling(std::uint64_t seed) const {
    return {.temperature = 1.5f, .top_k = 6, .seed = seed, .draw = GetParam()};
  }

  std::span<const float> logits_behind(const Tokens& text) {
    auto [kept, is_new] = logits_.try_emplace(text);
    if (is_new) {
      KvCache cache = decoder_.make_cache();
      const std::uint32_t rows = decoder_.append(cache, text);
      kept->second.resize(kToyVocabulary);
      backend_->read(decoder_.logits(rows - 1, 1), kept->second);
    }
    return kept->second;
  }

  // The law of answers behind `text`, whose probability is `reached`.
  void collect_law(const Tokens& text, double reached) {
    const std::size_t written = text.size() - kPromptCount;
    if (written == kAnswerTokens || (written > 0 && text.back() == kToyEndToken)) {
      law_[Tokens(text.begin() + kPromptCount, text.end())] = reached;
      return;
    }
    const std::vector<double> next = Sampler(sampling(0)).law(logits_behind(text));
    for (std::uint32_t token = 0; token < next.size(); ++token) {
      if (next[token] == 0.0) continue;
      Tokens longer = text;
      longer.push_back(token);
      collect_law(longer, reached * next[token]);
    }
  }

  // What a device that drafts well guesses to follow `text`: the very tokens that will be drawn,
  // but for one in three.
  Tokens guesses_behind(Tokens text, std::uint64_t seed, Random& random) {
    Tokens guesses;
    for (std::size_t i = text.size() - kPromptCount; i < kAnswerTokens; ++i) {
      const std::uint32_t drawn = Sampler(sampling(seed)).choose(logits_behind(text), text.size());
      guesses.push_back(random.below(3) == 0 ? (drawn + 1) % kToyVocabulary : drawn);
      if (guesses.back() != drawn || drawn == kToyEndToken) break;
      text.push_back(drawn);
    }
    return guesses;
  }

  struct Cell {
    double expected = 0.0;
    double count = 0.0;
  };

  std::map<Tokens, std::vector<float>> logits_;
  std::map<Tokens, double> law_;
};

TEST_P(RunLawTest, WhateverIsGuessedAnswersHaveTheTargetsLaw) {
  const char* const wanted = std::getenv("EDGEDRAFT_TEST_DRAWS");
  const std::uint64_t runs = wanted != nullptr ? std::stoull(wanted) : 5000;
  const Tokens prompt = prompt_of(0);
  collect_law(prompt, 1.0);
  std::map<Tokens, std::uint64_t> counts;
  std::uint64_t hinted = 0;
  std::uint64_t guessed = 0;  // of these
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
      ++counts[client->answer()];
    }
  }
  EXPECT_GT(guessed, hinted / 3);
  EXPECT_LT(guessed, hinted - hinted / 10);

  double chi_square = 0.0;
  int cells = 0;
  std::uint64_t total = 0;
  Cell rare;
  const auto add = [&](const Cell& cell) {
    chi_square += (cell.count - cell.expected) * (cell.count - cell.expected) / cell.expected;
    ++cells;
  };
  for (const auto& [answer, count] : counts) {
    EXPECT_TRUE(law_.contains(answer));
    total += count;
  }
  for (const auto& [answer, probability] : law_) {
    const Cell cell{.expected = probability * static_cast<double>(total),
                    .count = static_cast<double>(counts[answer])};
    if (cell.expected >= 10.0) {
      add(cell);
    } else {
      rare.expected += cell.expected;
      rare.count += cell.count;
    }
  }
  if (rare.expected > 0.0) add(rare);
  EXPECT_GT(cells, 20);
  // Five standard deviations above what chance gives.
  EXPECT_LT(chi_square, cells - 1 + 5.0 * std::sqrt(2.0 * (cells - 1)));
}

INSTANTIATE_TEST_SUITE_P(Draws, RunLawTest, ::testing::Values(Draw::inverse, Draw::gumbel),
                         [](const auto& draw) {
                           return std::string(draw.param == Draw::gumbel ? "gumbel" : "inverse");
                         });

}  // namespace
}  // namespace edgedraft
