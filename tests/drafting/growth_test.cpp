// Drafters that grow in steps: networks whose memory changes between steps, and several networks on
// one tree.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "shared/base/random.h"
#include "shared/drafting/independent/independent_network.h"
#include "shared/drafting/merged_drafter.h"
#include "shared/drafting/moa/moa_network.h"
#include "shared/drafting/ngram/ngram_drafter.h"
#include "shared/runtime/backend.h"
#include "shared/speculative/tree_growth.h"
#include "shared/speculative/tree_operations.h"
#include "tests/support/failing_backend.h"
#include "tests/support/random_tokens.h"
#include "tests/support/toy_models.h"
#include "tests/support/tree_paths.h"

namespace edgedraft {
namespace {

using testing::kToyVocabulary;
using testing::same_scores;
using testing::ToyDecoder;
using testing::ToyMoa;
using Tokens = std::vector<std::uint32_t>;

// Subtree below the node that `tokens` lead to; empty if the path is absent.
DraftTree below(const DraftTree& tree, std::span<const std::uint32_t> tokens) {
  constexpr std::uint32_t kElsewhere = ~0u;
  std::uint32_t root = 0;
  for (const std::uint32_t token : tokens) {
    root = tree.child(root, token);
    if (root == 0) return {};
  }
  DraftTree kept;
  std::vector<std::uint32_t> new_row(tree.row_count(), kElsewhere);
  new_row[root] = 0;
  for (std::uint32_t row = root + 1; row < tree.row_count(); ++row) {
    const std::uint32_t parent = new_row[tree.parent(row)];
    if (parent == kElsewhere) continue;
    new_row[row] =
        kept.add(tree.token(row), parent, relative_score(tree.score(row), tree.score(root)));
  }
  return kept;
}

class GrowthTest : public ::testing::Test {
 public:
  static constexpr std::uint32_t kPositions = 64;
  static constexpr TreeShape kShape{.breadth = 3, .depth = 4, .nodes = 20};

  std::unique_ptr<Drafter> moa() {
    return std::make_unique<MoaDrafter>(*backend_, moa_.config, moa_.tensors, kPositions);
  }
  std::unique_ptr<Drafter> independent() {
    return std::make_unique<IndependentDrafter>(*backend_, toy_.config, toy_.tensors, kPositions);
  }
  static std::unique_ptr<Drafter> ngram() {
    return std::make_unique<NgramDrafter>(adaptive_tree, kPositions);
  }
  static void feed(Drafter& drafter, const Tokens& tokens) {
    drafter.append(tokens);
    add_rows(drafter, 0, static_cast<std::uint32_t>(tokens.size()) - 1);
  }
  static void add_rows(Drafter& drafter, std::uint32_t first, std::uint32_t count) {
    const std::vector<float> rows(std::size_t{count} * drafter.activation_cols(), 0.1f);
    if (!rows.empty()) drafter.add_activations(first, rows);
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  ToyDecoder toy_{6};
  ToyMoa moa_{toy_, 3, 1};
  Tokens tokens_{5, 6, 7, 30, 5, 6};
};

TEST_F(GrowthTest, StepSizeDoesNotChangeTree) {
  for (const auto& make : {&GrowthTest::moa, &GrowthTest::independent}) {
    const auto whole = (this->*make)();
    feed(*whole, tokens_);
    const DraftTree tree = whole->draft(kShape);
    for (std::uint32_t rows = 1; rows < 9; ++rows) {
      const auto drafter = (this->*make)();
      feed(*drafter, tokens_);
      TreeGrowth growth(kShape);
      std::uint32_t steps = 1;
      while (!drafter->grow(growth, {.rows = rows})) ++steps;
      EXPECT_EQ(growth.tree(), tree);
      EXPECT_TRUE(same_scores(growth.tree(), tree));
      EXPECT_GT(steps, 1u);
    }
  }
}

// A caller that drafts in steps serves other work between them, so no step reads more tokens than a
// pass holds.
TEST_F(GrowthTest, ReadsLongTextInParts) {
  constexpr std::uint32_t kLong = 2 * kMaskRowsMax + 100;
  Random random(3);
  const Tokens tokens = testing::random_tokens(random, kLong, kToyVocabulary);
  const auto make = [&](bool is_moa) -> std::unique_ptr<Drafter> {
    if (is_moa)
      return std::make_unique<MoaDrafter>(*backend_, moa_.config, moa_.tensors, 2 * kLong);
    return std::make_unique<IndependentDrafter>(*backend_, toy_.config, toy_.tensors, 2 * kLong);
  };
  for (const bool is_moa : {false, true}) {
    SCOPED_TRACE(is_moa);
    const auto whole = make(is_moa);
    feed(*whole, tokens);
    const DraftTree tree = whole->draft(kShape);
    ASSERT_FALSE(tree.empty());
    const auto drafter = make(is_moa);
    feed(*drafter, tokens);
    TreeGrowth growth(kShape);
    for (int part = 0; part < 2; ++part) {
      EXPECT_FALSE(drafter->grow(growth, {.rows = 8}));
      EXPECT_EQ(growth.candidate_count(), 0u);
    }
    drafter->grow(growth, {.rows = 8});
    EXPECT_GT(growth.candidate_count(), 0u);
    while (!drafter->grow(growth, {.rows = 8})) {
    }
    EXPECT_EQ(growth.tree(), tree);
    EXPECT_TRUE(same_scores(growth.tree(), tree));
  }
}

// A device may queue commands until the host waits. Reading a part ends with a wait, so that other
// work runs in between and the device never receives a whole text at once.
TEST_F(GrowthTest, WaitsAfterEachPartOfLongText) {
  constexpr std::uint32_t kLong = 2 * kMaskRowsMax + 100;
  const Tokens tokens(kLong, 5);
  for (const bool is_moa : {false, true}) {
    for (const bool in_steps : {false, true}) {
      SCOPED_TRACE(::testing::Message() << is_moa << in_steps);
      testing::DeviceFault waits{.operation = testing::Operation::wait, .n = ~0u};  // never fails
      testing::FailingBackend device(make_cpu_backend({.threads = 1}), waits);
      std::unique_ptr<Drafter> drafter;
      if (is_moa) {
        drafter = std::make_unique<MoaDrafter>(device, moa_.config, moa_.tensors, 2 * kLong);
      } else {
        drafter =
            std::make_unique<IndependentDrafter>(device, toy_.config, toy_.tensors, 2 * kLong);
      }
      drafter->append(tokens);
      if (!in_steps) {
        drafter->draft(kShape);
        EXPECT_EQ(waits.count, 2u) << "between three parts";
        continue;
      }
      TreeGrowth growth(kShape);
      for (std::uint32_t part = 1; part <= 2; ++part) {
        EXPECT_FALSE(drafter->grow(growth, {.rows = 8}));
        EXPECT_EQ(waits.count, part);
      }
    }
  }
}

// If logits are read or another tree is grown in between, the missing rows run again.
TEST_F(GrowthTest, InterleavedCallsDoNotChangeTree) {
  const auto drafter = independent();
  feed(*drafter, tokens_);
  const DraftTree tree = drafter->draft(kShape);
  TreeGrowth growth(kShape);
  int steps = 0;
  while (!drafter->grow(growth, {.rows = 2})) {
    if (++steps % 2 == 0) {
      drafter->next_logits();
    } else {
      EXPECT_EQ(drafter->draft(kShape), tree);
    }
  }
  EXPECT_EQ(growth.tree(), tree);
  EXPECT_GT(steps, 3);
}

// After verdicts, with late activations, growth continues: the tree holds the nodes kept, and the
// best first token of a fresh tree.
TEST_F(GrowthTest, ContinuesAfterVerdicts) {
  Random random(5);
  for (const auto& make : {&GrowthTest::moa, &GrowthTest::independent}) {
    const auto drafter = (this->*make)();
    feed(*drafter, tokens_);
    TreeGrowth growth(kShape);
    auto known = static_cast<std::uint32_t>(tokens_.size()) - 1;
    for (int verdict = 0; verdict < 12; ++verdict) {
      drafter->grow(growth, {.rows = static_cast<std::uint32_t>(random.below(12))});
      const DraftTree before = growth.tree();
      Tokens path;
      if (!before.empty() && random.below(3) > 0) {
        auto row = 1 + static_cast<std::uint32_t>(random.below(before.node_count()));
        for (; row > 0; row = before.parent(row)) path.insert(path.begin(), before.token(row));
      } else {
        path.push_back(static_cast<std::uint32_t>(random.below(kToyVocabulary)));
      }
      growth.reroot(path);
      drafter->append(path);
      const DraftTree kept = below(before, path);
      EXPECT_EQ(merge(growth.tree(kTreeNodesMax), kept, kTreeNodesMax).node_count(),
                growth.tree(kTreeNodesMax).node_count());
      if (random.below(2) == 0) {
        add_rows(*drafter, known, drafter->token_count() - 1 - known);
        known = drafter->token_count() - 1;
      }
    }
    while (!drafter->grow(growth, {.rows = 3})) {
    }
    const DraftTree tree = growth.tree();
    const auto depths = tree.depths();
    EXPECT_EQ(*std::ranges::max_element(depths), kShape.depth);
    if (drafter->activation_cols() == 0) {
      EXPECT_NE(tree.child(0, drafter->draft(chain_shape(1)).token(1)), 0u);
    }
  }
}

class MergedDrafterTest : public GrowthTest {
 protected:
  std::unique_ptr<Drafter> merged(std::unique_ptr<Drafter> main) {
    std::vector<std::unique_ptr<Drafter>> drafters;
    drafters.push_back(std::move(main));
    drafters.push_back(ngram());
    return std::make_unique<MergedDrafter>(std::move(drafters));
  }
};

TEST_F(MergedDrafterTest, TreeIsMergeOfBothDraftersTrees) {
  const auto both = merged(moa());
  const auto a = moa();
  const auto b = ngram();
  Tokens tokens = tokens_;
  for (Drafter* drafter : {both.get(), a.get(), b.get()}) feed(*drafter, tokens);
  for (int turn = 0; turn < 6; ++turn) {
    for (const TreeShape& shape : {kShape, chain_shape(3)}) {
      const DraftTree expected = merge(a->draft(shape), b->draft(shape), shape.nodes);
      EXPECT_EQ(both->draft(shape), expected) << turn;
      TreeGrowth growth(shape);
      while (!both->grow(growth, {.rows = 2})) {
      }
      EXPECT_EQ(growth.tree(), expected) << turn;
    }
    const Tokens next{static_cast<std::uint32_t>(5 + turn % 2), 30};
    for (Drafter* drafter : {both.get(), a.get(), b.get()}) {
      if (turn == 3) drafter->truncate(4);
      drafter->append(next);
    }
  }
  const auto expected = a->next_logits();
  const auto logits = both->next_logits();
  EXPECT_TRUE(std::ranges::equal(logits, expected)) << "only the first drafter provides logits";
}

// The network has to find other tokens than those a grammar excludes.
TEST_F(MergedDrafterTest, NetworkRespectsConstraints) {
  const auto both = merged(moa());
  const auto a = moa();
  const auto b = ngram();
  for (Drafter* drafter : {both.get(), a.get(), b.get()}) feed(*drafter, tokens_);
  const std::uint32_t first = a->draft(kShape).token(1);
  const auto without_it = [=](std::span<const std::uint32_t>, std::vector<DraftGuess>& guesses) {
    std::erase_if(guesses, [&](const DraftGuess& guess) { return guess.token == first; });
  };
  const DraftTree expected = merge(a->draft(kShape, without_it), b->draft(kShape), kShape.nodes);
  EXPECT_NE(expected, merge(a->draft(kShape), b->draft(kShape), kShape.nodes));
  EXPECT_EQ(both->draft(kShape, without_it), expected);
}

// In drafting ahead, unlikely nodes are not expanded.
TEST_F(MergedDrafterTest, NetworkKeepsScoreFloorInBestFirstOrder) {
  constexpr Score kFloor = -3.0f;
  const auto grown = [&](Drafter& drafter, std::uint64_t* expanded) {
    feed(drafter, tokens_);
    TreeGrowth growth({.breadth = 4, .depth = kTreeDepthMax, .nodes = 255},
                      GrowthOrder::best_first);
    growth.set_floor(kFloor);
    while (!drafter.grow(growth, {.rows = 4})) {
    }
    *expanded = growth.expanded_count();
    return growth.tree();
  };
  std::uint64_t alone = 0;
  std::uint64_t within = 0;
  const auto b = ngram();
  feed(*b, tokens_);
  const DraftTree network = grown(*moa(), &alone);
  EXPECT_EQ(grown(*merged(moa()), &within),
            merge(network, b->draft({.breadth = 4, .depth = kTreeDepthMax, .nodes = 255}), 255));
  EXPECT_EQ(within, alone);
}

TEST_F(MergedDrafterTest, ContinuesAfterVerdict) {
  const auto both = merged(independent());
  feed(*both, tokens_);
  TreeGrowth growth(kShape);
  both->grow(growth, {});
  const std::uint32_t token = growth.tree().token(1);
  const DraftTree kept = below(growth.tree(), std::array{token});
  growth.reroot(std::array{token});
  both->append(std::array{token});
  EXPECT_EQ(growth.tree(), kept);
  while (!both->grow(growth, {.rows = 2})) {
  }
  const auto depths = growth.tree().depths();
  EXPECT_EQ(*std::ranges::max_element(depths), kShape.depth);
}

}  // namespace
}  // namespace edgedraft
