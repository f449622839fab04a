// Sessions of models of several families with drafters that read their states: drafts change no
// answer.
#include <gtest/gtest.h>

#include "server/sessions/target_session.h"
#include "shared/base/random.h"
#include "shared/drafting/eagle3/eagle3_kind.h"
#include "shared/drafting/kinds.h"
#include "shared/drafting/network_drafter.h"
#include "shared/protocol/activation_codec.h"
#include "tests/support/assistant_bundle.h"
#include "tests/support/block_drafter.h"
#include "tests/support/family_models.h"
#include "tests/support/own_drafter.h"
#include "tests/support/random_tokens.h"
#include "tests/support/toy_feature_drafters.h"

namespace edgedraft::server {
namespace {

using Tokens = std::vector<std::uint32_t>;

// A family of tests/data/families and what drafts for it: its own block (mtp), a random EAGLE-3, a
// published assistant or a DFlash drafter.
struct DraftedFamily {
  std::string name;
  std::string drafter;
};

class StateDrafterTest : public ::testing::TestWithParam<DraftedFamily> {
 protected:
  StateDrafterTest() {
    const std::string& drafter = GetParam().drafter;
    if (drafter == "eagle3") {
      drafter_ = make_eagle3_model(eagle3_.emplace(model_.config(), 3).model);
    } else {
      const GgufFile& file = drafter == "mtp"      ? own_.emplace(GetParam().name).file()
                             : drafter == "dflash" ? block_.emplace(drafter).file()
                                                   : assistant_.emplace(drafter).file();
      drafter_ = (*drafter_kind_of(file))->read(file).value();
    }
    tap_ = drafter_->make_tap(*backend_);
  }

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
  // Gives the drafter what a link carries: the rows in eight bits of all tokens that ran.
  void catch_up(const TargetSession& target, Drafter& drafter) {
    drafter.append(target.tokens().subspan(drafter.token_count()));
    const std::uint32_t count = target.valid_count() - known_;
    std::vector<float> rows(std::size_t{count} * drafter.activation_cols());
    tap_->read(target.cache(), known_, count, rows);
    const auto groups = tap_->scale_groups();
    const ActivationLayout layout({groups.begin(), groups.end()});
    drafter.add_activations(known_, *dequantize_rows(layout, count, quantize_rows(layout, rows)));
    known_ = target.valid_count();
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  testing::FamilyModel model_{*backend_, GetParam().name, kContext, testing::Weights::as_stored,
                              GetParam().drafter == "eagle3" || GetParam().drafter == "dflash"
                                  ? testing::Keeps::inputs
                                  : testing::Keeps::features};
  std::optional<testing::OwnDrafter> own_;
  std::optional<testing::ToyEagle3> eagle3_;
  std::optional<testing::AssistantBundle> assistant_;
  std::optional<testing::BlockDrafter> block_;
  std::unique_ptr<DrafterModel> drafter_;
  std::unique_ptr<Tap> tap_;
  std::uint32_t known_ = 0;
};

TEST_P(StateDrafterTest, DraftsGivePlainDecodingsTokens) {
  Random random(1);
  const Tokens prompt =
      testing::random_tokens(random, 30, model_.decoder().config().vocabulary_count);
  const auto weights = drafter_->load(*backend_, kContext);
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

INSTANTIATE_TEST_SUITE_P(
    Families, StateDrafterTest,
    ::testing::Values(DraftedFamily{"qwen35", "mtp"}, DraftedFamily{"qwen35moe", "mtp"},
                      DraftedFamily{"qwen3", "eagle3"}, DraftedFamily{"qwen3", "dflash"},
                      DraftedFamily{"llama-yarn", "eagle3"}, DraftedFamily{"gpt-oss", "eagle3"},
                      DraftedFamily{"gemma4-ple", "gemma4-assistant"},
                      DraftedFamily{"gemma4-keqv", "gemma4-assistant-keqv"}),
    [](const auto& family) {
      std::string name = family.param.name + '_' + family.param.drafter;
      std::ranges::replace(name, '-', '_');
      return name;
    });

}  // namespace
}  // namespace edgedraft::server
