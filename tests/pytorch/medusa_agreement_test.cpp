#include <gtest/gtest.h>

#include <string>

#include "shared/drafting/medusa/medusa_drafter.h"
#include "shared/drafting/medusa/medusa_kind.h"
#include "tests/pytorch/split_models.h"
#include "tests/runtime/op_test.h"
#include "tests/support/skip.h"

namespace edgedraft {
namespace {

using testing::SplitModels;

// Version 1 has outputs of the heads' own; version 2 uses the target's.
class MedusaAgreementTest : public ::testing::TestWithParam<const char*> {
 protected:
  // Computes the heads' logits on their own backend.
  void expect_same_heads(Backend& device) {
    const auto expected = models_.expected();
    MedusaHeads heads(device, model_.config, model_.tensors);
    KvCache cache = target_->make_cache();
    std::vector<float> feature;
    std::uint32_t rounds = 0;
    for (std::string r = "round0"; expected.has(r + ".tokens");
         r = "round" + std::to_string(++rounds)) {
      const auto rows = testing::new_rows(*target_, cache, *tap_, expected.tokens(r + ".tokens"));
      if (!rows.empty()) feature.assign(rows.end() - model_.config.dim, rows.end());
      const Matrix logits = heads.logits(feature, 0, model_.config.head_count);
      testing::expect_agreement(testing::read_matrix(device, logits),
                                expected.floats(r + ".head_logits"), r);
    }
    EXPECT_GE(rounds, 3u);
  }

  SplitModels models_{std::string("medusa/") + GetParam()};
  MedusaModel model_ = read_medusa(models_.bundle()).value();
  std::unique_ptr<Tap> tap_ = make_medusa_model(model_)->make_tap(models_.backend());
  std::unique_ptr<Decoder> target_ = models_.decoder(*tap_);
};

TEST_P(MedusaAgreementTest, HeadsMatchPyTorchAfterEveryRound) {
  expect_same_heads(models_.backend());
}

TEST_P(MedusaAgreementTest, VulkanHeadsMatchPyTorch) {
  const auto vulkan = testing::open_vulkan();
  if (!vulkan) EDGEDRAFT_SKIP_WITHOUT("vulkan", "not on this machine");
  expect_same_heads(*vulkan);
}

INSTANTIATE_TEST_SUITE_P(Versions, MedusaAgreementTest, ::testing::Values("medusa-1", "medusa-2"),
                         [](const auto& one) {
                           return std::string("version_") + one.param[sizeof "medusa-" - 1];
                         });

}  // namespace
}  // namespace edgedraft
