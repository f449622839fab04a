#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "shared/drafting/multistream/multistream_drafter.h"
#include "tests/pytorch/split_models.h"
#include "tests/runtime/op_test.h"
#include "tests/support/skip.h"

namespace edgedraft {
namespace {

using testing::SplitModels;
using Tokens = std::vector<std::uint32_t>;

// Makes a decoder keep no states.
class NoStates final : public Tap {
 public:
  std::span<const std::uint32_t> scale_groups() const override { return {}; }
  void read(const KvCache&, std::uint32_t, std::uint32_t, std::span<float>) override {}
};

class MultistreamAgreementTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<MultistreamNetwork> network_on(Backend& device) {
    return std::make_unique<MultistreamNetwork>(std::make_shared<MultistreamWeights>(
        device, model_.config, model_.tensors, SplitModels::kPositions));
  }
  // Runs the streams on their own backend.
  void expect_same_streams(Backend& device) {
    const auto expected = models_.expected();
    const auto network = network_on(device);
    KvCache cache = target_->make_cache();
    std::uint32_t rounds = 0;
    for (std::string r = "round0"; expected.has(r + ".tokens");
         r = "round" + std::to_string(++rounds)) {
      const std::uint32_t known = cache.length();
      const auto tokens = expected.tokens(r + ".tokens");
      network->extend_memory(known, testing::new_rows(*target_, cache, tap_, tokens));
      const auto newest = network->newest_before(static_cast<std::uint32_t>(tokens.size()) - 1);
      ASSERT_EQ(newest, tokens.size() - 2);
      const Matrix logits = network->logits(*newest, 0, model_.config.stream_count);
      testing::expect_agreement(testing::read_matrix(device, logits),
                                expected.floats(r + ".stream_logits"), r);
    }
    EXPECT_GE(rounds, 3u);
  }

  SplitModels models_{GetParam()};
  MultistreamModel model_ = read_multistream(models_.bundle()).value();
  MultistreamTap tap_{models_.backend(), model_.config};
  std::unique_ptr<Decoder> target_ = models_.decoder(tap_);
};

TEST_P(MultistreamAgreementTest, StreamsMatchPyTorchAfterEveryRound) {
  expect_same_streams(models_.backend());
}

TEST_P(MultistreamAgreementTest, VulkanStreamsMatchPyTorch) {
  const auto vulkan = testing::open_vulkan();
  if (!vulkan) EDGEDRAFT_SKIP_WITHOUT("vulkan", "not on this machine");
  expect_same_streams(*vulkan);
}

// Streams of a position do not see later ones, and arrive in any order.
TEST_P(MultistreamAgreementTest, OlderPositionIgnoresNewerActivations) {
  const Tokens tokens = models_.expected().tokens("round1.tokens");
  KvCache cache = target_->make_cache();
  const auto rows = testing::new_rows(*target_, cache, tap_, tokens);
  const auto count = static_cast<std::uint32_t>(tokens.size()) - 1;
  const auto part = [&](std::uint32_t first, std::uint32_t end) {
    const std::size_t cols = rows.size() / count;
    return std::span(rows).subspan(first * cols, (end - first) * cols);
  };
  const std::uint32_t last = count - 2;
  const auto logits_of = [&](MultistreamNetwork& network) {
    EXPECT_EQ(network.newest_before(last + 1), last);
    return testing::read_matrix(models_.backend(),
                                network.logits(last, 0, model_.config.stream_count));
  };
  const auto only_older = network_on(models_.backend());
  only_older->extend_memory(0, part(0, last + 1));
  const auto expected = logits_of(*only_older);

  const auto with_newer = network_on(models_.backend());
  with_newer->extend_memory(last, part(last, count));
  with_newer->extend_memory(0, part(0, last));
  testing::expect_agreement(logits_of(*with_newer), expected, "another order");
  with_newer->truncate_memory(last + 1);
  testing::expect_agreement(logits_of(*with_newer), expected, "newer ones dropped");
}

TEST_P(MultistreamAgreementTest, TargetWithStreamsMatchesPlainTargetBitForBit) {
  const Tokens tokens = models_.expected().tokens("round2.tokens");
  const auto network = network_on(models_.backend());
  const auto plain = models_.decoder(NoStates());
  KvCache with_streams = target_->make_cache();
  KvCache without = plain->make_cache();
  for (std::uint32_t i = 0; i + 1 < tokens.size(); ++i) {
    const auto one = std::span(tokens).subspan(i, 1);
    target_->append(with_streams, one);
    const auto logits = testing::read_matrix(models_.backend(), target_->logits(0, 1));
    plain->append(without, one);
    ASSERT_EQ(testing::read_matrix(models_.backend(), plain->logits(0, 1)), logits) << i;
    std::vector<float> row(network->activation_cols());
    tap_.read(with_streams, i, 1, row);
    network->extend_memory(i, row);
    network->logits(i, 0, model_.config.stream_count);
  }
  std::vector<float> rows[2];
  for (std::size_t c = 0; c < 2; ++c) {
    const KvCache& cache = c == 0 ? with_streams : without;
    for (const auto views : {cache.keys(), cache.values()}) {
      for (const CacheView& view : views) {
        const CacheRows run = view.run(0, static_cast<std::uint32_t>(tokens.size()) - 1);
        std::vector<float> values(std::size_t{run.rows} * run.cols);
        models_.backend().read_cache(run, values);
        rows[c].insert(rows[c].end(), values.begin(), values.end());
      }
    }
  }
  EXPECT_EQ(rows[0], rows[1]);
}

// The streams of the second fixture begin at the embedding, of a target with scaled RoPE and
// biases.
INSTANTIATE_TEST_SUITE_P(Fixture, MultistreamAgreementTest,
                         ::testing::Values("multistream/multistream-2", "scaled/multistream-2"),
                         [](const auto& one) { return testing::name_of(one.param); });

}  // namespace
}  // namespace edgedraft
