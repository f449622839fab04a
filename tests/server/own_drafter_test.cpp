// Sessions of models that bring their own drafter: drafts change no answer.
#include <gtest/gtest.h>

#include "server/sessions/target_session.h"
#include "shared/base/random.h"
#include "shared/drafting/network_drafter.h"
#include "shared/drafting/state_tap.h"
#include "shared/protocol/activation_codec.h"
#include "tests/support/family_models.h"
#include "tests/support/own_drafter.h"
#include "tests/support/random_tokens.h"

namespace edgedraft::server {
namespace {

using Tokens = std::vector<std::uint32_t>;

class OwnDrafterTest : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr std::uint32_t kContext = 256;
  static constexpr std::uint32_t kCount = 40;  // tokens of an answer

  TargetSession session() {
    return {model_.decoder(), kContext, [](std::uint32_t) { return false; }};
  }
  Tokens plain(const Tokens& prompt, const SamplingParams& sampling) {
    TargetSession target = session();
    target.prefill({.base_count = 0, .tokens = prompt, .sampling = sampling}).value();
    while (target.tokens().size() < prompt.size() + kCount) target.verify(DraftTree()).value();
    return {target.tokens().begin(), target.tokens().end()};
  }
  // Gives the drafter what a link carries: the features in eight bits of all tokens that ran.
  void catch_up(const TargetSession& target, Drafter& drafter) {
    const std::uint32_t dim = drafter.activation_cols();
    drafter.append(target.tokens().subspan(drafter.token_count()));
    const std::uint32_t count = target.valid_count() - known_;
    std::vector<float> rows(std::size_t{count} * dim);
    tap_->read(target.cache(), known_, count, rows);
    const ActivationLayout layout({dim});
    drafter.add_activations(known_, *dequantize_rows(layout, count, quantize_rows(layout, rows)));
    known_ = target.valid_count();
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  testing::FamilyModel model_{*backend_, GetParam(), kContext, testing::Weights::as_stored,
                              testing::Keeps::features};
  testing::OwnDrafter own_{GetParam()};
  std::unique_ptr<Tap> tap_ = make_feature_tap(*backend_, own_.model());
  std::uint32_t known_ = 0;
};

TEST_P(OwnDrafterTest, DraftsGivePlainDecodingsTokens) {
  Random random(1);
  const Tokens prompt =
      testing::random_tokens(random, 30, model_.decoder().config().vocabulary_count);
  const auto weights = load_feature_drafters(*backend_, own_.model(), kContext);
  for (const float temperature : {0.0f, 0.8f}) {
    const SamplingParams sampling{.temperature = temperature, .seed = 7};
    const Tokens expected = plain(prompt, sampling);
    for (const TreeShape& shape : {TreeShape{.breadth = 1, .depth = 5, .nodes = 5},
                                   TreeShape{.breadth = 8, .depth = 4, .nodes = 40}}) {
      const auto drafter = weights->make_drafter();
      known_ = 0;
      TargetSession target = session();
      target.prefill({.base_count = 0, .tokens = prompt, .sampling = sampling}).value();
      while (target.tokens().size() < expected.size()) {
        catch_up(target, *drafter);
        const DraftTree tree = drafter->draft(shape);
        EXPECT_FALSE(tree.empty());
        target.verify(tree).value();
      }
      EXPECT_TRUE(std::ranges::equal(target.tokens().first(expected.size()), expected))
          << "temperature " << temperature << ", breadth " << shape.breadth;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, OwnDrafterTest, ::testing::ValuesIn(testing::kMtpFamilies));

}  // namespace
}  // namespace edgedraft::server
