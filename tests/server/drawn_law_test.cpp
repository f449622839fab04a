// Drafts that a device draws from a law of its own leave answers the target's law.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "shared/speculative/drawn_draft.h"
#include "shared/speculative/rule_numbers.h"
#include "shared/speculative/sampling.h"
#include "tests/server/run_rig.h"
#include "tests/support/law_of_answers.h"

namespace edgedraft {
namespace {

using testing::kAnswerTokens;
using testing::KnownLogits;
using testing::LawOfAnswers;

struct Sent {
  wire::Draft draft;
  double overlap = 0.0;  // of both laws behind the root, but for the end token
};

class DrawnLawTest : public RunTest {
 protected:
  // Their drafts share passes, and wait for room in them.
  static constexpr std::size_t kClients = 8;

  static SamplingParams sampling(std::uint64_t seed) {
    return {.temperature = 1.5f, .top_k = 6, .seed = seed};
  }

  std::vector<double> target_law(const Tokens& text) {
    return Sampler(sampling(0)).law(logits_.behind(text));
  }
  // What the drafter, which knows of no filters, holds likely behind `text`.
  std::vector<DraftGuess> guesses_behind(const Tokens& text) {
    std::vector<DraftGuess> guesses;
    for (const float logit : (drafts_well_ ? logits_ : drafter_logits_).behind(text)) {
      guesses.push_back({.token = static_cast<std::uint32_t>(guesses.size()), .log_prob = logit});
    }
    std::ranges::stable_sort(guesses, std::greater(), &DraftGuess::log_prob);
    return guesses;
  }

  // The draft of a device that holds `text`.
  Sent draw(const Tokens& text, const TreeShape& shape, std::uint64_t seed) {
    Random numbers = draft_numbers(seed, text.size() - 1);
    DrawnDraft drawn({.temperature = sampling(seed).temperature,
                      .breadth = shape.breadth,
                      .law_tokens_max = kLawTokensMax,
                      .uniform = [&] { return numbers.uniform(); }});
    TreeGrowth growth(shape);
    growth.set_choice([&](std::span<const std::uint32_t> path, std::vector<DraftGuess>& guesses) {
      Tokens longer = text;
      longer.insert(longer.end(), path.begin(), path.end());
      guesses = guesses_behind(longer);
      drawn.draw(path, guesses);
    });
    for (GrowthLevel level = growth.next(); !level.empty(); level = growth.next()) {
      const Tokens any(level.nodes.size());
      growth.answer(level, any, std::vector<float>(any.size()));
    }
    const DraftTree tree = growth.tree();
    Sent sent{.draft = {.base_length = static_cast<std::uint32_t>(text.size()),
                        .tokens = {tree.tokens().begin(), tree.tokens().end()},
                        .parents = {tree.parents().begin(), tree.parents().end()}}};
    for (const SparseLaw& law : drawn.laws(tree)) {
      sent.draft.laws.emplace_back(law.entries().begin(), law.entries().end());
    }
    const std::vector<double> target = target_law(text);
    for (std::uint32_t token = 0; token < target.size(); ++token) {
      // A draft that is accepted and ends the answer is no part of a path.
      if (token == kToyEndToken) continue;
      sent.overlap += std::min(target[token], drawn.law(tree, 0).probability(token));
    }
    return sent;
  }

  struct Device {
    RawClient* raw;
    Tokens text;
    std::uint32_t row_budget = 0;
    wire::Draft draft{};  // in flight
    bool over = false;    // or as long as wanted
    bool ended = false;   // by the server
  };

  // Takes the verdict on what is in flight; how many drafted tokens it accepts.
  std::size_t listen(Device& device) {
    const auto heard = std::exchange(device.raw->heard, {});
    EXPECT_EQ(heard.size(), 1u);
    const auto* verdict = heard.empty() ? nullptr : std::get_if<wire::Verdict>(&heard[0]);
    if (verdict == nullptr) {
      ADD_FAILURE() << "no verdict";
      device.over = true;
      return 0;
    }
    for (const std::uint8_t row : verdict->path)
      device.text.push_back(device.draft.tokens[row - 1]);
    device.text.push_back(verdict->next);
    EXPECT_EQ(device.text.size(), verdict->length);
    device.row_budget = verdict->row_budget;
    device.ended = verdict->ending != wire::Ending::none;
    device.over = device.ended || device.text.size() >= kPromptCount + kAnswerTokens;
    return verdict->path.size();
  }

  // Answers of many seeds, with trees of this shape, cut to the budget that the server tells, have
  // the target's law.
  void expect_the_targets_law(const TreeShape& shape) {
    const std::uint64_t wanted = LawOfAnswers::draws();
    const Tokens prompt = prompt_of(0);
    LawOfAnswers law(kAnswerTokens, [&](const Tokens& answer) {
      Tokens text = prompt;
      text.insert(text.end(), answer.begin(), answer.end());
      return target_law(text);
    });
    std::vector<Device> devices;
    for (std::size_t i = 0; i < kClients; ++i) devices.push_back({.raw = &connect().raw()});
    for (std::uint64_t seed = 0; seed < wanted; seed += kClients) {
      for (std::size_t i = 0; i < kClients; ++i) {
        devices[i].text = prompt;
        ASSERT_TRUE(
            devices[i].raw->send(wire::Prefill{.tokens = prompt, .sampling = sampling(seed + i)}));
      }
      run_until_idle();
      for (Device& device : devices) listen(device);
      while (std::ranges::any_of(devices, [](const Device& d) { return !d.over; })) {
        std::vector<double> overlaps(kClients);
        std::vector<bool> asked(kClients);
        for (std::size_t i = 0; i < kClients; ++i) {
          Device& device = devices[i];
          if (device.over) continue;
          TreeShape fits = shape;
          ASSERT_GE(device.row_budget, 2u);
          fits.nodes = std::min(shape.nodes, device.row_budget - 1);
          const Sent sent = draw(device.text, fits, seed + i);
          device.draft = sent.draft;
          overlaps[i] = sent.overlap;
          asked[i] = true;
          nodes_ += sent.draft.tokens.size();
          ASSERT_TRUE(device.raw->send(sent.draft));
        }
        run_until_idle();
        for (std::size_t i = 0; i < kClients; ++i) {
          if (!asked[i]) continue;
          const std::size_t accepted = listen(devices[i]);
          accepted_ += accepted;
          expected_ += overlaps[i];
          variance_ += overlaps[i] * (1.0 - overlaps[i]);
        }
      }
      for (const Device& device : devices) {
        law.add(Tokens(device.text.begin() + kPromptCount, device.text.end()));
      }
    }
    law.expect();
  }

  ToyDecoder toy_drafter_{2};
  Decoder drafter_{*backend_, toy_drafter_.config, toy_drafter_.tensors, kContext};
  KnownLogits logits_{decoder_, *backend_};
  KnownLogits drafter_logits_{drafter_, *backend_};
  bool drafts_well_ = false;  // the drafter is the target, else another model
  std::uint64_t nodes_ = 0;
  std::uint64_t accepted_ = 0;
  double expected_ = 0.0;  // of these, in chains of one
  double variance_ = 0.0;
};

// Budgets cut the trees, and passes have no room for the drafts of all.
TEST_F(DrawnLawTest, TreesLeaveAnswersTheTargetsLaw) {
  open({.pass_rows_max = 20, .prompt_rows = 8, .row_budget = 7, .metrics = metrics_});
  expect_the_targets_law({.breadth = 3, .depth = 2, .nodes = 12});
  EXPECT_GT(accepted_, nodes_ / 50);
}

// Its drafts are mostly taken, so that any choice among what was drawn would show.
TEST_F(DrawnLawTest, TreesOfADrafterThatIsRightDoSoToo) {
  drafts_well_ = true;
  open({.pass_rows_max = 20, .prompt_rows = 8, .row_budget = 7, .metrics = metrics_});
  expect_the_targets_law({.breadth = 3, .depth = 2, .nodes = 12});
  EXPECT_GT(accepted_, nodes_ / 8);
}

TEST_F(DrawnLawTest, AChainOfOneIsAcceptedAsOftenAsTheLawsOverlap) {
  open({.pass_rows_max = 20, .prompt_rows = 8, .row_budget = 7, .metrics = metrics_});
  expect_the_targets_law(chain_shape(1));
  EXPECT_NEAR(static_cast<double>(accepted_), expected_, 5.0 * std::sqrt(variance_));
  EXPECT_GT(expected_, 100.0);
}

// Whatever the law says: the token that is likeliest is chosen, and drafts that are it are taken.
TEST_F(DrawnLawTest, GreedyAnswersArePlainOnes) {
  open({.metrics = metrics_});
  const Tokens prompt = prompt_of(0);
  Device device{.raw = &connect().raw(), .text = prompt};
  ASSERT_TRUE(device.raw->send(wire::Prefill{.tokens = prompt}));
  run_until_idle();
  listen(device);
  std::size_t accepted = 0;
  drafts_well_ = true;
  for (std::uint64_t seed = 0; seed < 20 && !device.ended; ++seed) {
    device.draft = draw(device.text, {.breadth = 8, .depth = 2, .nodes = 60}, seed).draft;
    ASSERT_TRUE(device.raw->send(device.draft));
    run_until_idle();
    accepted += listen(device);
  }
  const Tokens answer(device.text.begin() + kPromptCount, device.text.end());
  Tokens expected = plain(prompt);
  expected.resize(std::min(expected.size(), answer.size()));
  EXPECT_EQ(answer, expected);
  EXPECT_GT(accepted, 0u);
}

// The numbers are of seed and position: what is asked again, of another server, is answered the
// same.
TEST_F(DrawnLawTest, TheSameDraftsHaveTheSameAnswer) {
  std::vector<Tokens> answers;
  for (int repetition = 0; repetition < 2; ++repetition) {
    open({.metrics = metrics_});
    Device device{.raw = &connect().raw(), .text = prompt_of(0)};
    ASSERT_TRUE(device.raw->send(wire::Prefill{.tokens = device.text, .sampling = sampling(9)}));
    run_until_idle();
    listen(device);
    for (int cycle = 0; cycle < 6 && !device.ended; ++cycle) {
      device.draft = draw(device.text, {.breadth = 3, .depth = 3, .nodes = 12}, 9).draft;
      ASSERT_TRUE(device.raw->send(device.draft));
      run_until_idle();
      listen(device);
    }
    answers.push_back(device.text);
  }
  EXPECT_EQ(answers[0], answers[1]);
}

TEST_F(DrawnLawTest, ALawBeyondTheVocabularyCostsTheRequestAlone) {
  open({.metrics = metrics_});
  const Tokens prompt = prompt_of(0);
  Device device{.raw = &connect().raw(), .text = prompt};
  ASSERT_TRUE(device.raw->send(wire::Prefill{.tokens = prompt, .sampling = sampling(1)}));
  run_until_idle();
  listen(device);
  device.draft = draw(device.text, chain_shape(1), 1).draft;
  wire::Draft wrong = device.draft;
  LawEntry& unlikely = wrong.laws[0].back();
  ASSERT_LT(unlikely.weight, kLawWeightMax);
  ASSERT_NE(unlikely.token, wrong.tokens[0]);
  unlikely.token = kToyVocabulary;
  ASSERT_TRUE(device.raw->send(wrong));
  const auto heard = std::exchange(device.raw->heard, {});
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(std::get<wire::ErrorReport>(heard[0]).code, Errc::protocol);
  ASSERT_TRUE(device.raw->send(device.draft)) << "the session goes on";
  run_until_idle();
  listen(device);
}

}  // namespace
}  // namespace edgedraft
