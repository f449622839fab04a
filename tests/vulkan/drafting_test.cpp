#include "shared/drafting/feature_network.h"
#include "shared/drafting/independent/independent_network.h"
#include "shared/drafting/moa/moa_network.h"
#include "shared/drafting/network_drafter.h"
#include "shared/speculative/tree_growth.h"
#include "tests/support/made_up_rows.h"
#include "tests/support/matrix_reading.h"
#include "tests/support/toy_feature_drafters.h"
#include "tests/support/toy_models.h"
#include "tests/vulkan/vulkan_support.h"

// Compares drafters on a Vulkan device with the same ones on the CPU.
//
// Sums run in another order there, so scores differ in the last places and candidates with nearly
// equal scores could swap. With these seeds none do, so trees are compared exactly, and logits
// within a bound.
namespace edgedraft::testing {
namespace {

constexpr TreeShape kShape{.breadth = 8, .depth = 6, .nodes = 62};
constexpr int kRounds = 8;
constexpr double kLogitTolerance = 2e-4;  // for logits around ten

class VulkanDraftingTest : public OpenVulkanTest {
 protected:
  // Grows a tree on both, accepts a path of some nodes, and continues after it. `extend(network,
  // first, count)` gives a network the target's states of new positions.
  template <class Network, class Extend>
  void expect_same_trees(Network& on_cpu, Network& on_vulkan, const Extend& extend) {
    Random random(7);
    std::vector<std::uint32_t> tokens = {5, 6, 7, 8};
    std::uint32_t position = 0;
    for (int round = 0; round < kRounds; ++round) {
      const auto count = static_cast<std::uint32_t>(tokens.size());
      for (Network* network : {&on_cpu, &on_vulkan}) {
        extend(*network, position, count - 1);
        network->commit(tokens);
      }
      SCOPED_TRACE("round " + std::to_string(round));
      ASSERT_NO_FATAL_FAILURE(
          expect_close(read_logits(on_vulkan), read_logits(on_cpu), kLogitTolerance));
      const DraftTree tree = grow_tree(on_cpu, kShape);
      ASSERT_EQ(grow_tree(on_vulkan, kShape), tree);
      position += count - 1;
      // The root becomes a committed token and is sent again with the accepted ones.
      std::uint32_t row = 1 + static_cast<std::uint32_t>(random.below(tree.node_count()));
      tokens.clear();
      for (; row != 0; row = tree.parent(row)) tokens.insert(tokens.begin(), tree.token(row));
      tokens.push_back(static_cast<std::uint32_t>(random.below(kToyVocabulary)));
      position += 1;
    }
  }

  std::unique_ptr<Backend> cpu_ = make_cpu_backend({.threads = 1});
  ToyDecoder toy_{4};
};

TEST_F(VulkanDraftingTest, MoaGrowsSameTreesAsCpu) {
  for (const std::uint32_t tli : {0u, 1u, 3u}) {
    for (const std::uint32_t ca_kv_heads : {2u, 1u}) {  // both cut points
      const ToyMoa moa(toy_, 40 + tli, tli, ca_kv_heads);
      const MoaRowLayout layout = moa_row_layout(moa.config);
      MoaNetwork on_cpu(*cpu_, moa.config, moa.tensors, 200);
      MoaNetwork on_vulkan(*vulkan_, moa.config, moa.tensors, 200);
      expect_same_trees(on_cpu, on_vulkan,
                        [&](MoaNetwork& network, std::uint32_t first, std::uint32_t count) {
                          network.extend_memory(first, made_up_rows(layout.cols(), first, count));
                        });
    }
  }
}

TEST_F(VulkanDraftingTest, EagleGrowsSameTreesAsCpu) {
  const ToyEagle toy_eagle(toy_, 40);
  FeatureNetwork on_cpu(*cpu_, toy_eagle.model(), 200);
  FeatureNetwork on_vulkan(*vulkan_, toy_eagle.model(), 200);
  expect_same_trees(
      on_cpu, on_vulkan, [&](FeatureNetwork& network, std::uint32_t first, std::uint32_t count) {
        network.extend_memory(first, made_up_rows(network.activation_cols(), first, count));
      });
}

TEST_F(VulkanDraftingTest, IndependentDrafterGrowsSameTreesAsCpu) {
  IndependentNetwork on_cpu(*cpu_, toy_.config, toy_.tensors, 200);
  IndependentNetwork on_vulkan(*vulkan_, toy_.config, toy_.tensors, 200);
  expect_same_trees(on_cpu, on_vulkan, [](IndependentNetwork&, std::uint32_t, std::uint32_t) {});
}

// Tokens, positions, masks, prefix and slots change from tree to tree; the commands do not.
TEST_F(VulkanDraftingTest, TreeOfKnownShapeRecordsNothing) {
  const ToyMoa moa(toy_, 41, 1);
  const MoaRowLayout layout = moa_row_layout(moa.config);
  MoaNetwork network(*vulkan_, moa.config, moa.tensors, 200);
  std::uint32_t position = 0;
  std::uint64_t recordings = 0;
  for (int round = 0; round < 5; ++round) {
    network.extend_memory(position, made_up_rows(layout.cols(), position, 3));
    network.commit(std::vector<std::uint32_t>{5, 6, 7 + position});
    position += 3;
    const std::uint64_t runs = vulkan_->counts().runs;
    grow_tree(network, kShape);
    if (round == 0) {  // memory grows to the size of a tree
      continue;
    }
    EXPECT_EQ(vulkan_->counts().runs - runs, kShape.depth) << "one run per level";
    if (round > 1) {
      EXPECT_EQ(vulkan_->counts().recordings, recordings) << "round " << round;
    }
    recordings = vulkan_->counts().recordings;
  }
}

// Other conversations run between the parts, so each part's work is submitted within its turn.
TEST_F(VulkanDraftingTest, SubmitsEachPartOfLongTextInItsTurn) {
  constexpr std::uint32_t kLong = 2 * kMaskRowsMax + 100;
  const ToyMoa moa(toy_, 42, 1);
  MoaDrafter with_memory(*vulkan_, moa.config, moa.tensors, 2 * kLong);
  IndependentDrafter without(*vulkan_, toy_.config, toy_.tensors, 2 * kLong);
  const std::vector<std::uint32_t> tokens(kLong, 5);
  for (Drafter* drafter : {static_cast<Drafter*>(&with_memory), static_cast<Drafter*>(&without)}) {
    drafter->append(tokens);
    TreeGrowth growth(kShape);
    for (int part = 0; part < 2; ++part) {
      const std::uint64_t runs = vulkan_->counts().runs;
      EXPECT_FALSE(drafter->grow(growth, {.rows = 8}));
      EXPECT_GT(vulkan_->counts().runs, runs) << "part " << part;
    }
  }
}

TEST_F(VulkanDraftingTest, StaysCorrectForManyCallShapes) {
  const OwnedMatrix x = matrix_of(*vulkan_, 256, 8, random_floats(1, 2048));
  const OwnedMatrix y(*vulkan_, 256, 8);
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t rows = 1; rows <= 200; ++rows) {
      vulkan_->store({.x = x.rows(rows), .cache = y.all(), .first = 256 - rows});
      const Floats last = values_of(*vulkan_, y.all().row_range(255, 1));
      ASSERT_TRUE(same_bytes(last, values_of(*vulkan_, x.all().row_range(rows - 1, 1))));
    }
  }
}

}  // namespace
}  // namespace edgedraft::testing
