#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <variant>
#include <vector>

#include "shared/base/random.h"
#include "tests/client/generation_rig.h"

// Answers to prompts with private text, of which the server may read the part before it.
namespace edgedraft::client {
namespace {

using testing::Answer;
using testing::GenerationRig;
using testing::LinkFault;
using testing::Tokens;
using testing::ToyDrafter;

constexpr std::uint32_t kLength = 24;
const Tokens kOpen{7, 11, 13, 17, 19, 23, 29, 31, 5, 9, 15};
constexpr std::uint32_t kOpenCount = 11;

GenerationRig::Options options_of(std::vector<LinkFault> faults = {}) {
  GenerationRig::Options options{.drafter = ToyDrafter::moa_tli1, .tokens_max = kLength};
  options.faults = std::move(faults);
  return options;
}

// The prompt that ends with a secret, to be answered on the device.
Tokens kept_here(GenerationRig& rig, const Tokens& secret, std::uint32_t open_count,
                 Tokens prompt) {
  rig.generation().set({.tokens_max = kLength,
                        .route = WritingSide::device,
                        .is_private = true,
                        .open_count = open_count});
  prompt.insert(prompt.end(), secret.begin(), secret.end());
  return prompt;
}

// True if the device answers: without activations its drafter refuses.
bool answers(GenerationRig& rig, const Tokens& secret, std::uint32_t open_count,
             const Tokens& prompt = kOpen) {
  return rig.try_answer(kept_here(rig, secret, open_count, prompt)).has_value();
}

Answer answer(GenerationRig& rig, const Tokens& secret, std::uint32_t open_count,
              const Tokens& prompt = kOpen) {
  return rig.answer(kept_here(rig, secret, open_count, prompt));
}

Tokens some_tokens(Random& random) {
  Tokens tokens(random.below(12));
  for (std::uint32_t& token : tokens) token = 1 + static_cast<std::uint32_t>(random.below(40));
  return tokens;
}

Tokens sent_tokens(const GenerationRig& rig) {
  Tokens all;
  for (const auto& request : rig.requests()) {
    if (const auto* prefill = std::get_if<wire::Prefill>(&request)) {
      EXPECT_EQ(prefill->sampling, SamplingParams{});
      all.insert(all.end(), prefill->tokens.begin(), prefill->tokens.end());
    } else if (const auto* resume = std::get_if<wire::Resume>(&request)) {
      all.insert(all.end(), resume->tokens.begin(), resume->tokens.end());
    } else if (!std::holds_alternative<CancelRequest>(request)) {
      ADD_FAILURE() << "expected a prompt or its cancel";
    }
  }
  return all;
}

TEST(PrivateAnswerTest, DrafterReceivesActivationsOfOpenPart) {
  const Tokens secret{40, 41, 42};
  GenerationRig rig(options_of());
  const Answer opened = answer(rig, secret, kOpenCount);
  EXPECT_GT(opened.tokens.size(), 0u);
  EXPECT_EQ(opened.count(Provenance::private_), opened.tokens.size());
  EXPECT_EQ(sent_tokens(rig), kOpen);

  // State after an earlier conversation with only the open part.
  GenerationRig before(options_of());
  before.generation().set({.tokens_max = 1});
  before.answer(kOpen);
  EXPECT_EQ(answer(before, secret, 0).tokens, opened.tokens);
  EXPECT_EQ(before.requests().size(), 1u);

  GenerationRig alone(options_of());
  EXPECT_FALSE(answers(alone, secret, 0));
  EXPECT_TRUE(alone.requests().empty());
}

TEST(PrivateAnswerTest, DoesNotResendOpenPart) {
  GenerationRig rig(options_of());
  const Answer first = answer(rig, {40, 41}, kOpenCount);
  EXPECT_EQ(answer(rig, {40, 41}, kOpenCount).tokens, first.tokens);
  answer(rig, {60}, kOpenCount);
  answer(rig, {}, kOpenCount);
  EXPECT_EQ(rig.requests().size(), 1u);
  // A public answer continues from there.
  rig.generation().set({.tokens_max = kLength});
  EXPECT_EQ(rig.answer(kOpen).tokens, rig.plain(kOpen).tokens);
}

// For any events on the way. The answer ends soon or never, as its duration would show when the
// next request comes.
TEST(PrivateAnswerTest, TenThousandPrivateTextsSendSameTokens) {
  Random random(17);
  constexpr LinkFault::Kind kKinds[] = {LinkFault::Kind::lost_request, LinkFault::Kind::lost_answer,
                                        LinkFault::Kind::silence,      LinkFault::Kind::forgotten,
                                        LinkFault::Kind::refused,      LinkFault::Kind::forgetful};
  constexpr std::uint32_t kWaits[] = {0, 1, 1'000'000};
  constexpr std::uint32_t kTurns = 20;
  for (int schedule = 0; schedule < 50; ++schedule) {
    std::vector<LinkFault> faults;
    for (std::uint32_t request = 0; request < kTurns; ++request) {
      if (random.below(3) > 0) continue;
      faults.push_back({.request = request,
                        .kind = kKinds[random.below(std::size(kKinds))],
                        .wait_calls = kWaits[random.below(std::size(kWaits))]});
    }
    const std::uint64_t seed = random.below(1u << 30);
    std::optional<Tokens> expected;
    for (int device = 0; device < 10; ++device) {
      GenerationRig rig(options_of(faults));
      Random open_random(seed);
      for (std::uint32_t turn = 0; turn < kTurns; ++turn) {
        Tokens open = kOpen;
        if (open_random.below(2) == 0) open[open_random.below(open.size())] = 50;
        answers(rig, some_tokens(random), kOpenCount, open);
      }
      const Tokens sent = sent_tokens(rig);
      if (!expected) expected = sent;
      ASSERT_EQ(sent, *expected) << schedule;
    }
  }
}

TEST(PrivateAnswerTest, LinkFaultsRevealNothingAndBlockNoAnswer) {
  using Kind = LinkFault::Kind;
  for (const Kind kind :
       {Kind::lost_request, Kind::lost_answer, Kind::silence, Kind::forgotten, Kind::refused}) {
    std::vector<Tokens> sent;
    for (const Tokens& secret : {Tokens{40}, Tokens(30, 41), Tokens{1, 2, 3}}) {
      GenerationRig rig(options_of({{.request = 1, .kind = kind, .wait_calls = 3}}));
      for (int turn = 0; turn < 3; ++turn) {
        const bool is_told = answers(rig, secret, kOpenCount);
        EXPECT_EQ(is_told, !rig.listener().tokens.empty());
        for (const Provenance of : rig.listener().provenance) EXPECT_EQ(of, Provenance::private_);
      }
      sent.push_back(sent_tokens(rig));
    }
    EXPECT_EQ(sent[1], sent[0]);
    EXPECT_EQ(sent[2], sent[0]);
    for (std::size_t i = 0; i < sent[0].size(); ++i) {
      EXPECT_EQ(sent[0][i], kOpen[i % kOpen.size()]) << "tokens beyond the open part were sent";
    }
  }
}

}  // namespace
}  // namespace edgedraft::client
