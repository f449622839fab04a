#include "tests/bench/rules/candidate_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "shared/base/clock.h"
#include "shared/base/random.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kVocabulary = 6;
using Tokens = std::vector<std::uint32_t>;

DenseDistribution random_distribution(Random& random) {
  DenseDistribution distribution(kVocabulary);
  double total = 0.0;
  for (double& p : distribution) {
    // Some tokens are impossible, others very unlikely.
    p = random.below(4) == 0 ? 0.0 : std::pow(random.uniform(), 4.0);
    total += p;
  }
  if (total == 0.0) return random_distribution(random);
  for (double& p : distribution) p /= total;
  return distribution;
}

SparseDistribution random_draft(Random& random) {
  std::vector<SparseDistribution::Entry> entries;
  for (std::uint32_t token = 0; token < kVocabulary; ++token) {
    if (random.below(3) == 0) continue;
    entries.push_back({token, static_cast<std::uint16_t>(1 + random.below(300))});
  }
  return entries.empty() ? random_draft(random) : SparseDistribution(entries);
}

// Calls back with every sequence of up to `count` drawn children and its probability.
void for_each_draw(const SparseDistribution& distribution, std::size_t count,
                   const std::function<void(const Tokens&, double)>& visit) {
  const std::function<void(const SparseDistribution&, Tokens&, double)> go =
      [&](const SparseDistribution& left, Tokens& drawn, double p) {
        if (drawn.size() == count || left.entries().empty()) return visit(drawn, p);
        for (const auto& [token, weight] : left.entries()) {
          drawn.push_back(token);
          go(left.without(token), drawn, p * left.probability(token));
          drawn.pop_back();
        }
      };
  Tokens drawn;
  go(distribution, drawn, 1.0);
}

struct CandidateOdds {
  // Acceptance probability of each child if none before it was accepted.
  std::vector<double> accept;
  // Distribution of the token if no child is accepted; empty if one always is.
  DenseDistribution rest;
};

// Enumerates all rounds.
CandidateOdds candidate_odds(const DenseDistribution& target, const SparseDistribution& draft,
                             std::span<const std::uint32_t> children) {
  CandidateOdds odds;
  CandidateTurns turns(target, draft);
  for (const std::uint32_t child : children) {
    odds.accept.push_back(turns.odds(child));
    if (!turns.reject(child)) return odds;
  }
  odds.rest = std::move(turns).rest();
  return odds;
}

TEST(CandidateRuleTest, ResultsFollowTargetDistribution) {
  Random random(1);
  for (int repetition = 0; repetition < 60; ++repetition) {
    const DenseDistribution target = random_distribution(random);
    const SparseDistribution draft = random_draft(random);
    for (std::size_t count = 0; count <= 4; ++count) {
      DenseDistribution emitted(kVocabulary, 0.0);
      for_each_draw(draft, count, [&](const Tokens& children, double probability) {
        const CandidateOdds odds = candidate_odds(target, draft, children);
        double reached = probability;
        for (std::size_t i = 0; i < odds.accept.size(); ++i) {
          emitted[children[i]] += reached * odds.accept[i];
          reached *= 1.0 - odds.accept[i];
        }
        for (std::uint32_t t = 0; t < odds.rest.size(); ++t) emitted[t] += reached * odds.rest[t];
      });
      for (std::uint32_t t = 0; t < kVocabulary; ++t) EXPECT_NEAR(emitted[t], target[t], 1e-9);
    }
  }
}

TEST(CandidateRuleTest, AcceptanceEqualsOverlapOfDistributions) {
  Random random(2);
  for (int repetition = 0; repetition < 60; ++repetition) {
    const DenseDistribution target = random_distribution(random);
    const SparseDistribution draft = random_draft(random);
    double overlap = 0.0;
    for (std::uint32_t t = 0; t < kVocabulary; ++t) {
      overlap += std::min(target[t], draft.probability(t));
    }
    double accepted = 0.0;
    for_each_draw(draft, 1, [&](const Tokens& child, double probability) {
      accepted += probability * candidate_odds(target, draft, child).accept[0];
    });
    EXPECT_NEAR(accepted, overlap, 1e-12);
  }
}

// p = (.5, .5), q = (.9, .1): dropping token 1 whenever it is drawn, for its low score, makes it
// too frequent in the answer.
TEST(CandidateRuleTest, DroppingDrawnTokensBiasesAnswer) {
  const DenseDistribution target{0.5, 0.5};
  const SparseDistribution draft({{0, 9}, {1, 1}});
  double kept = 0.0;
  double choosy = 0.0;
  for_each_draw(draft, 1, [&](const Tokens& child, double probability) {
    const CandidateOdds odds = candidate_odds(target, draft, child);
    const double one = odds.accept[0] * (child[0] == 1 ? 1.0 : 0.0) +
                       (1.0 - odds.accept[0]) * (odds.rest.empty() ? 0.0 : odds.rest[1]);
    kept += probability * one;
    choosy += probability * (child[0] == 1 ? target[1] : one);
  });
  EXPECT_NEAR(kept, 0.5, 1e-12);
  EXPECT_NEAR(choosy, 0.45, 1e-12);
}

// A vocabulary is large and a draft distribution small: the cost of another child must not grow
// with the vocabulary.
TEST(CandidateRuleTest, CostDoesNotGrowWithChildren) {
  constexpr std::uint32_t kMany = 200'000;
  constexpr std::uint32_t kChildren = 60;
  std::vector<SparseDistribution::Entry> entries;
  for (std::uint32_t token = 0; token < kChildren; ++token) entries.push_back({token, 100});
  const SparseDistribution draft(entries);
  // Tokens that the target allows: all of the draft's, or none.
  for (const bool accepted : {true, false}) {
    DenseDistribution target(kMany, 0.0);
    for (std::uint32_t i = 0; i < kChildren; ++i) {
      target[accepted ? i : kMany - 1 - i] = 1.0 / kChildren;
    }
    const auto seconds_for = [&](std::uint32_t children) {
      DraftTree tree;
      for (std::uint32_t token = 0; token < children; ++token) tree.add(token, 0);
      double fastest = std::numeric_limits<double>::infinity();
      for (int repetition = 0; repetition < 5; ++repetition) {
        const Instant begun = Clock::now();
        const VerifiedPath path = verify_candidates(
            tree, {.root_position = 10,
                   .context_count = 12,
                   .target = [&](std::uint32_t) { return target; },
                   .draft = [&](std::uint32_t) -> const SparseDistribution& { return draft; },
                   .uniform = [] { return 0.5; },
                   .is_end = [](std::uint32_t token) { return token == 0; }});
        fastest = std::min(fastest, seconds(Clock::now() - begun));
        EXPECT_EQ(path.next < kChildren, accepted);
      }
      return fastest;
    };
    EXPECT_LT(seconds_for(kChildren), 10.0 * seconds_for(1));
  }
}

// Trees of two levels and fixed shape: the first two tokens of an answer.
TEST(CandidateRuleTest, TwoLevelsFollowTargetDistribution) {
  Random random(3);
  const DenseDistribution first = random_distribution(random);
  std::map<std::uint32_t, DenseDistribution> second;  // keyed by the first token
  for (std::uint32_t t = 0; t < kVocabulary; ++t) second[t] = random_distribution(random);
  const SparseDistribution draft({{0, 30}, {1, 20}, {2, 5}, {3, 4}, {4, 4}, {5, 1}});
  std::vector<double> counts(kVocabulary * kVocabulary, 0.0);
  constexpr int kDraws = 100000;
  const auto uniform = [&] { return random.uniform(); };
  double accepted = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    DraftTree tree;
    for (const std::uint32_t token : draft.draw(2, uniform)) {
      const std::uint32_t row = tree.add(token, 0);
      if (row == 1) {
        for (const std::uint32_t below : draft.draw(2, uniform)) tree.add(below, row);
      }
    }
    const auto token_of = [&](std::uint32_t row) { return row == 0 ? 0 : tree.token(row); };
    const VerifiedPath path = verify_candidates(
        tree,
        {.root_position = 10,
         .context_count = 100,
         .target = [&](std::uint32_t row) { return row == 0 ? first : second[token_of(row)]; },
         .draft = [&](std::uint32_t) -> const SparseDistribution& { return draft; },
         .uniform = uniform,
         .is_end = [](std::uint32_t) { return false; }});
    accepted += static_cast<double>(path.path.size());
    Tokens answer;
    for (const std::uint32_t row : path.path) answer.push_back(tree.token(row));
    answer.push_back(path.next);
    // The target samples the tokens that a walk leaves open.
    if (answer.size() < 2) {
      double left = random.uniform();
      std::uint32_t t = 0;
      while (t + 1 < kVocabulary && (left -= second[answer[0]][t]) >= 0.0) ++t;
      answer.push_back(t);
    }
    ++counts[answer[0] * kVocabulary + answer[1]];
  }
  double chi_square = 0.0;
  int cells = 0;
  for (std::uint32_t a = 0; a < kVocabulary; ++a) {
    for (std::uint32_t b = 0; b < kVocabulary; ++b) {
      const double expected = kDraws * first[a] * second[a][b];
      const double count = counts[a * kVocabulary + b];
      if (expected == 0.0) {
        EXPECT_EQ(count, 0.0);
        continue;
      }
      chi_square += (count - expected) * (count - expected) / expected;
      ++cells;
    }
  }
  // Five standard deviations above the expected value.
  EXPECT_LT(chi_square, cells + 5.0 * std::sqrt(2.0 * cells));
  EXPECT_GT(accepted, 0.0);
}

TEST(SparseDistributionTest, RoundsBeforeDrawing) {
  const std::vector<DraftGuess> guesses{
      {7, std::log(0.6f)}, {3, std::log(0.3f)}, {9, std::log(1e-9f)}};
  const SparseDistribution distribution(guesses, 1.0);
  EXPECT_EQ(distribution.entries().size(), 2u) << "tokens that round to zero are never drawn";
  EXPECT_NEAR(distribution.probability(7), 2.0 / 3.0, 1e-4);
  EXPECT_EQ(distribution.probability(9), 0.0);
  EXPECT_EQ(distribution.without(7).probability(3), 1.0);
  Random random(4);
  std::map<Tokens, int> drawn;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++drawn[distribution.draw(5, [&] { return random.uniform(); })];
  EXPECT_NEAR((drawn[{7, 3}]) / static_cast<double>(kDraws), distribution.probability(7), 0.02);
  EXPECT_EQ((drawn[{7, 3}] + drawn[{3, 7}]), kDraws);
}

}  // namespace
}  // namespace edgedraft
