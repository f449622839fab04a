// Several drafters that share weights: each drafts as if alone, in any interleaving.
#include <gtest/gtest.h>

#include "shared/drafting/dflash/dflash_kind.h"
#include "shared/drafting/eagle/eagle_kind.h"
#include "shared/drafting/eagle3/eagle3_kind.h"
#include "shared/drafting/gemma4_assistant/gemma4_assistant_kind.h"
#include "shared/drafting/independent/independent_kind.h"
#include "shared/drafting/medusa/medusa_kind.h"
#include "shared/drafting/moa/moa_kind.h"
#include "shared/drafting/mtp/mtp_kind.h"
#include "shared/drafting/multistream/multistream_kind.h"
#include "shared/runtime/backend.h"
#include "tests/support/assistant_bundle.h"
#include "tests/support/block_drafter.h"
#include "tests/support/toy_feature_drafters.h"
#include "tests/support/toy_models.h"

namespace edgedraft {
namespace {

using testing::HeadOutputs;
using testing::ToyDecoder;
using testing::ToyEagle;
using testing::ToyEagle3;
using testing::ToyMedusa;
using testing::ToyMoa;
using testing::ToyMtp;
using testing::ToyMultistream;
using Tokens = std::vector<std::uint32_t>;

enum class Kind : std::uint8_t {
  independent,
  moa,
  eagle,
  eagle3,
  mtp,
  medusa,
  multistream,
  dflash,
  assistant
};

class SharedWeightsTest : public ::testing::TestWithParam<Kind> {
 protected:
  static constexpr std::uint32_t kPositions = 64;
  static constexpr TreeShape kShape{.breadth = 3, .depth = 3, .nodes = 9};

  std::unique_ptr<DrafterModel> model() const {
    switch (GetParam()) {
      case Kind::moa:
        return make_moa_model({.config = moa_.config, .tensors = moa_.tensors});
      case Kind::eagle:
        return make_eagle_model({.config = toy_eagle_.config, .tensors = toy_eagle_.tensors});
      case Kind::eagle3:
        return make_eagle3_model(toy_eagle3_.model);
      case Kind::mtp:
        return make_mtp_model(toy_mtp_.model);
      case Kind::medusa:
        return make_medusa_model({.config = toy_medusa_.config, .tensors = toy_medusa_.tensors});
      case Kind::assistant:
        return make_assistant_model(assistant_.model());
      case Kind::multistream:
        return make_multistream_model(
            {.config = toy_multistream_.config, .tensors = toy_multistream_.tensors});
      case Kind::dflash:
        return make_dflash_model(block_.model());
      case Kind::independent:
        break;
    }
    return make_independent_model({.config = toy_.config, .tensors = toy_.tensors});
  }
  // Feeds tokens, and activations of all but the last.
  static void feed(Drafter& drafter, const Tokens& tokens, float value) {
    drafter.append(tokens);
    const std::vector<float> rows((tokens.size() - 1) * drafter.activation_cols(), value);
    if (!rows.empty()) drafter.add_activations(0, rows);
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  ToyDecoder toy_{6};
  ToyMoa moa_{toy_, 3, 1};
  ToyEagle toy_eagle_{toy_, 3};
  ToyEagle3 toy_eagle3_{toy_.config, 3};
  ToyMtp toy_mtp_{toy_, 3};
  ToyMedusa toy_medusa_{toy_, 3, HeadOutputs::shared};
  testing::AssistantBundle assistant_{testing::kAssistants.front()};
  ToyMultistream toy_multistream_{toy_, 3};
  testing::BlockDrafter block_{testing::kBlockDrafterNames.front()};
  Tokens first_{5, 6, 7};
  Tokens second_{9, 30, 12, 4};
};

TEST_P(SharedWeightsTest, InterleavedDraftersMatchSeparateOnes) {
  const auto weights = model()->load(*backend_, kPositions);
  const auto a = weights->make_drafter();
  const auto b = weights->make_drafter();
  feed(*a, first_, 0.1f);
  feed(*b, second_, -0.2f);
  const auto alone = [&](const Tokens& tokens, float value) {
    const auto own = model()->load(*backend_, kPositions);
    auto drafter = own->make_drafter();
    feed(*drafter, tokens, value);
    return drafter;
  };
  const auto logits_of = [](Drafter& drafter) {
    const auto logits = drafter.next_logits();
    return std::vector<float>(logits.begin(), logits.end());
  };
  const auto only_a = alone(first_, 0.1f);
  const auto only_b = alone(second_, -0.2f);
  // b computes over scratch memory that holds a's logits.
  EXPECT_EQ(logits_of(*a), logits_of(*only_a));
  EXPECT_EQ(logits_of(*b), logits_of(*only_b));
  EXPECT_EQ(a->draft(kShape), only_a->draft(kShape));
  EXPECT_EQ(b->draft(kShape), only_b->draft(kShape));
  EXPECT_EQ(logits_of(*a), logits_of(*only_a));
  EXPECT_EQ(b->draft(kShape), only_b->draft(kShape));
}

// A drafter keeps alive everything that it computes with.
TEST_P(SharedWeightsTest, DraftersOutliveWeightsHandleAndEachOther) {
  auto weights = model()->load(*backend_, kPositions);
  auto a = weights->make_drafter();
  const auto b = weights->make_drafter();
  weights.reset();
  feed(*a, first_, 0.1f);
  feed(*b, first_, 0.1f);
  const DraftTree tree = a->draft(kShape);
  a.reset();
  EXPECT_EQ(b->draft(kShape), tree);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SharedWeightsTest,
                         ::testing::Values(Kind::independent, Kind::moa, Kind::eagle, Kind::eagle3,
                                           Kind::mtp, Kind::medusa, Kind::multistream, Kind::dflash,
                                           Kind::assistant));

}  // namespace
}  // namespace edgedraft
