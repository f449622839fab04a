#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "shared/drafting/moa/moa_network.h"
#include "shared/drafting/moa/moa_tap.h"
#include "tests/pytorch/split_models.h"
#include "tests/runtime/op_test.h"
#include "tests/support/skip.h"

namespace edgedraft {
namespace {

using testing::expect_agreement;
using testing::Expected;
using testing::read_matrix;
using testing::SplitModels;
using Tokens = std::vector<std::uint32_t>;

// The whole split, from a checkpoint in the public layout: target and tap here, network there.
class MoaAgreementTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::string(GetParam()).ends_with("-tli" + std::to_string(model_.config.tli)));
  }

  // Runs the network on its own backend.
  void expect_same_rounds(Backend& device) {
    MoaNetwork network(device, model_.config, model_.tensors, SplitModels::kPositions);
    testing::expect_same_rounds(models_.expected(), *target_, tap_, network);
  }

  SplitModels models_{GetParam()};
  MoaModel model_ = read_moa(models_.bundle()).value();
  MoaTap tap_{models_.backend(), model_.config, model_.tensors};
  std::unique_ptr<Decoder> target_ = models_.decoder(tap_);
};

TEST_P(MoaAgreementTest, LogitsMatchPyTorchThroughRounds) {
  expect_same_rounds(models_.backend());
}

TEST_P(MoaAgreementTest, VulkanLogitsMatchPyTorch) {
  const auto vulkan = testing::open_vulkan();
  if (!vulkan) EDGEDRAFT_SKIP_WITHOUT("vulkan", "not on this machine");
  expect_same_rounds(*vulkan);
}

TEST_P(MoaAgreementTest, LayerMeanMatchesPyTorch) {
  const Expected expected = models_.expected();
  const auto m = expected.floats("m");
  const std::uint32_t cols = model_.config.layer_self_attention.dim;
  const auto count = static_cast<std::uint32_t>(m.size() / cols);
  std::uint32_t last_round = 0;
  while (expected.has("round" + std::to_string(last_round + 1) + ".tokens")) ++last_round;
  const Tokens tokens = expected.tokens("round" + std::to_string(last_round) + ".tokens");
  ASSERT_EQ(tokens.size(), count + 1);
  KvCache cache = target_->make_cache();
  target_->append(cache, std::span(tokens).first(count));
  LayerSelfAttention lsa(models_.backend(), model_.config, model_.tensors);
  OwnedMatrix mean(models_.backend(), count, cols);
  Tokens slots(count);
  std::iota(slots.begin(), slots.end(), 0u);
  lsa.mean(cache, slots, mean.all());
  expect_agreement(read_matrix(models_.backend(), mean.all()), m, "m");
}

// The last one's target scales RoPE and has biases.
INSTANTIATE_TEST_SUITE_P(Fixture, MoaAgreementTest,
                         ::testing::Values("moa/moa-tli0", "moa/moa-tli1", "moa/moa-tli3",
                                           "scaled/moa-tli1"),
                         [](const auto& one) { return testing::name_of(one.param); });

}  // namespace
}  // namespace edgedraft
