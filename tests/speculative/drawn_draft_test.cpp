// Drafts sampled from the drafter's own distribution, and the rule that accepts them, leave answers
// in the target's distribution.
#include "tests/bench/rules/drawn_draft.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "shared/base/random.h"
#include "shared/speculative/sampling.h"
#include "tests/bench/rules/candidate_rule.h"
#include "tests/support/answer_distribution.h"

namespace edgedraft {
namespace {

using testing::AnswerDistribution;
using testing::kAnswerTokens;
using testing::KnownLogits;
using testing::kToyEndToken;
using testing::ToyDecoder;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kContext = 32;
constexpr SamplingParams kSampling{.temperature = 1.5f, .top_k = 6};
const Tokens kPrompt{5, 17, 40, 9, 33, 21};

class DrawnDraftTest : public ::testing::Test {
 protected:
  DenseDistribution target_behind(const Tokens& text) {
    return Sampler(kSampling).distribution(logits_.behind(text));
  }

  // The drafter's guesses, likeliest first, without the sampling filters.
  std::vector<DraftGuess> guesses_behind(const Tokens& text) {
    std::vector<DraftGuess> guesses;
    for (const float logit : (drafts_well_ ? logits_ : drafter_logits_).behind(text)) {
      guesses.push_back({.token = static_cast<std::uint32_t>(guesses.size()), .log_prob = logit});
    }
    std::ranges::stable_sort(guesses, std::greater(), &DraftGuess::log_prob);
    return guesses;
  }

  // Drafts a tree after `text`, appends the tokens that the rule accepts and the one that follows.
  // Returns false after the end token.
  bool cycle(Tokens& text, const TreeShape& shape) {
    const auto uniform = [this] { return random_.uniform(); };
    DrawnDraft drawn(
        {.temperature = kSampling.temperature, .breadth = shape.breadth, .uniform = uniform});
    const auto along = [&](std::span<const std::uint32_t> path) {
      Tokens longer = text;
      longer.insert(longer.end(), path.begin(), path.end());
      return longer;
    };
    TreeGrowth growth(shape);
    growth.set_choice([&](std::span<const std::uint32_t> path, std::vector<DraftGuess>& guesses) {
      guesses = guesses_behind(along(path));
      drawn.draw(path, guesses);
    });
    for (GrowthLevel level = growth.next(); !level.empty(); level = growth.next()) {
      const Tokens any(level.nodes.size());
      growth.answer(level, any, std::vector<float>(any.size()));
    }
    const DraftTree tree = growth.tree();
    nodes_ += tree.node_count();
    const DenseDistribution target = target_behind(text);
    double overlap = 0.0;
    for (std::uint32_t token = 0; token < target.size(); ++token) {
      // An accepted draft that ends the answer is not part of the path.
      if (token == kToyEndToken) continue;
      overlap += std::min(target[token], drawn.distribution(tree, 0).probability(token));
    }
    const VerifiedPath verified = verify_candidates(
        tree, {.root_position = static_cast<std::uint32_t>(text.size()) - 1,
               .context_count = kContext,
               .target =
                   [&](std::uint32_t row) {
                     Tokens path;
                     for (; row != 0; row = tree.parent(row))
                       path.insert(path.begin(), tree.token(row));
                     return target_behind(along(path));
                   },
               .draft = [&](std::uint32_t row) -> const SparseDistribution& {
                 return drawn.distribution(tree, row);
               },
               .uniform = uniform,
               .is_end = [](std::uint32_t token) { return token == kToyEndToken; }});
    accepted_ += verified.path.size();
    expected_ += overlap;
    variance_ += overlap * (1.0 - overlap);
    for (const std::uint32_t row : verified.path) text.push_back(tree.token(row));
    text.push_back(verified.next);
    return verified.finish == Finish::none;
  }

  void expect_the_targets_distribution(const TreeShape& shape) {
    const auto behind = [](const Tokens& answer) {
      Tokens text = kPrompt;
      text.insert(text.end(), answer.begin(), answer.end());
      return text;
    };
    AnswerDistribution distribution(
        kAnswerTokens, [&](const Tokens& answer) { return target_behind(behind(answer)); });
    for (std::uint64_t i = 0; i < AnswerDistribution::draws(); ++i) {
      Tokens text = kPrompt;
      while (text.size() < kPrompt.size() + kAnswerTokens && cycle(text, shape)) continue;
      distribution.add(
          Tokens(text.begin() + static_cast<std::ptrdiff_t>(kPrompt.size()), text.end()));
    }
    distribution.expect();
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  ToyDecoder toy_{6};
  ToyDecoder toy_drafter_{2};
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, kContext};
  Decoder drafter_{*backend_, toy_drafter_.config, toy_drafter_.tensors, kContext};
  KnownLogits logits_{decoder_, *backend_};
  KnownLogits drafter_logits_{drafter_, *backend_};
  Random random_{11};
  bool drafts_well_ = false;  // drafts with the target itself, else with another model
  std::uint64_t nodes_ = 0;
  std::uint64_t accepted_ = 0;
  double expected_ = 0.0;  // expected acceptances in chains of one
  double variance_ = 0.0;
};

TEST_F(DrawnDraftTest, TreesKeepTargetDistribution) {
  expect_the_targets_distribution({.breadth = 3, .depth = 2, .nodes = 6});
  EXPECT_GT(accepted_, nodes_ / 50);
}

// Most drafts are accepted, so any bias in choosing among them would show.
TEST_F(DrawnDraftTest, TreesDrawnFromTargetKeepTargetDistribution) {
  drafts_well_ = true;
  expect_the_targets_distribution({.breadth = 3, .depth = 2, .nodes = 6});
  EXPECT_GT(accepted_, nodes_ / 8);
}

TEST_F(DrawnDraftTest, SingleNodeAcceptanceEqualsOverlapOfDistributions) {
  expect_the_targets_distribution(chain_shape(1));
  EXPECT_NEAR(static_cast<double>(accepted_), expected_, 5.0 * std::sqrt(variance_));
  EXPECT_GT(expected_, 100.0);
}

}  // namespace
}  // namespace edgedraft
