#include <gtest/gtest.h>

#include <string>

#include "shared/drafting/dflash/dflash_drafter.h"
#include "tests/pytorch/split_models.h"
#include "tests/runtime/op_test.h"
#include "tests/support/skip.h"

namespace edgedraft {
namespace {

using testing::SplitModels;

class DflashAgreementTest : public ::testing::TestWithParam<const char*> {
 protected:
  // The states are fused on the CPU, as on a server.
  void expect_same_blocks(Backend& device) {
    const auto expected = models_.expected();
    DflashWeights weights(device, model_, SplitModels::kPositions);
    const KvCache blocks = weights.make_cache();
    FusedTap tap(models_.backend(), model_.fusion);
    const auto target = models_.decoder(tap);
    KvCache cache = target->make_cache();
    std::uint32_t rounds = 0;
    for (std::string r = "round0"; expected.has(r + ".tokens");
         r = "round" + std::to_string(++rounds)) {
      const std::uint32_t known = cache.length();
      const auto tokens = expected.tokens(r + ".tokens");
      const auto rows = testing::new_rows(*target, cache, tap, tokens);
      weights.store_context(blocks, known, rows);
      const Matrix logits =
          weights.logits(blocks, {.context_first = 0,
                                  .first = static_cast<std::uint32_t>(tokens.size()) - 1,
                                  .tokens = std::span(tokens).last(1)});
      testing::expect_agreement(testing::read_matrix(device, logits),
                                expected.floats(r + ".mask_logits"), r);
    }
    EXPECT_GE(rounds, 3u);
  }

  SplitModels models_{GetParam()};
  DflashModel model_ = read_dflash(models_.bundle()).value();
};

TEST_P(DflashAgreementTest, BlocksMatchPyTorchAfterEveryRound) {
  expect_same_blocks(models_.backend());
}

TEST_P(DflashAgreementTest, VulkanBlocksMatchPyTorch) {
  const auto vulkan = testing::open_vulkan();
  if (!vulkan) EDGEDRAFT_SKIP_WITHOUT("vulkan", "not on this machine");
  expect_same_blocks(*vulkan);
}

// The target of the second fixture has scaled RoPE and biases.
INSTANTIATE_TEST_SUITE_P(Fixture, DflashAgreementTest,
                         ::testing::Values("dflash/dflash", "scaled/dflash"),
                         [](const auto& one) { return testing::name_of(one.param); });

}  // namespace
}  // namespace edgedraft
