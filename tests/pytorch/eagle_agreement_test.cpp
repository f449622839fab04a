#include <gtest/gtest.h>

#include <string>

#include "shared/drafting/eagle/eagle_kind.h"
#include "shared/drafting/feature_network.h"
#include "tests/pytorch/split_models.h"
#include "tests/runtime/op_test.h"
#include "tests/support/skip.h"

namespace edgedraft {
namespace {

using testing::SplitModels;

class EagleAgreementTest : public ::testing::TestWithParam<const char*> {
 protected:
  // Runs the network on its own backend.
  void expect_same_rounds(Backend& device) {
    FeatureNetwork network(device, feature_model(model_.config, model_.tensors),
                           SplitModels::kPositions);
    testing::expect_same_rounds(models_.expected(), *target_, *tap_, network);
  }

  SplitModels models_{GetParam()};
  EagleModel model_ = read_eagle(models_.bundle()).value();
  std::unique_ptr<Tap> tap_ = make_eagle_model(model_)->make_tap(models_.backend());
  std::unique_ptr<Decoder> target_ = models_.decoder(*tap_);
};

TEST_P(EagleAgreementTest, LogitsMatchPyTorchThroughRounds) {
  expect_same_rounds(models_.backend());
}

TEST_P(EagleAgreementTest, VulkanLogitsMatchPyTorch) {
  const auto vulkan = testing::open_vulkan();
  if (!vulkan) EDGEDRAFT_SKIP_WITHOUT("vulkan", "not on this machine");
  expect_same_rounds(*vulkan);
}

TEST_P(EagleAgreementTest, FeaturesMatchPyTorch) {
  const auto expected = models_.expected();
  const auto features = expected.floats("feature");
  std::uint32_t last_round = 0;
  while (expected.has("round" + std::to_string(last_round + 1) + ".tokens")) ++last_round;
  KvCache cache = target_->make_cache();
  const auto tokens = expected.tokens("round" + std::to_string(last_round) + ".tokens");
  testing::expect_agreement(testing::new_rows(*target_, cache, *tap_, tokens), features, "feature");
}

// The last one's target scales RoPE and has biases.
INSTANTIATE_TEST_SUITE_P(Fixture, EagleAgreementTest,
                         ::testing::Values("eagle/eagle", "eagle/eagle-bias", "scaled/eagle"),
                         [](const auto& one) { return testing::name_of(one.param); });

}  // namespace
}  // namespace edgedraft
