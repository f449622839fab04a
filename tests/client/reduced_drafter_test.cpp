// Drafters with a reduced vocabulary propose target ids, and only those in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/client/generation_rig.h"

namespace edgedraft::client {
namespace {

using testing::Answer;
using testing::GenerationRig;
using testing::kRigContext;
using testing::LinkFault;
using testing::reduce_vocabulary;
using testing::reduced_tokens;
using testing::Tokens;
using testing::ToyDecoder;
using testing::ToyDrafter;

bool is_known(std::uint32_t token) {
  const Tokens tokens = reduced_tokens();
  return std::ranges::binary_search(tokens, token);
}

class ReducedDrafterTest : public ::testing::Test {
 protected:
  ReducedDrafterTest() { reduce_vocabulary(some_, reduced_tokens()); }

  std::unique_ptr<Drafter> drafter_of(const ToyDecoder& toy) {
    auto drafter =
        std::make_unique<IndependentDrafter>(*backend_, toy.config, toy.tensors, kRigContext);
    drafter->append(Tokens{5, 6, 7});
    return drafter;
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  ToyDecoder whole_{6};
  ToyDecoder some_{6};
};

TEST_F(ReducedDrafterTest, LogitsOfKnownTokensEqualUnreducedDrafter) {
  const auto reduced = drafter_of(some_);
  const auto whole = drafter_of(whole_);
  const auto some = reduced->next_logits();
  const auto all = whole->next_logits();
  ASSERT_EQ(some.size(), all.size());
  for (std::uint32_t token = 0; token < all.size(); ++token) {
    EXPECT_EQ(some[token], is_known(token) ? all[token] : -INFINITY) << token;
  }
}

TEST_F(ReducedDrafterTest, TreesHoldTargetIds) {
  const auto reduced = drafter_of(some_);
  const DraftTree tree = reduced->draft({.breadth = 8, .depth = 4, .nodes = 40});
  EXPECT_EQ(tree.node_count(), 40u);
  EXPECT_TRUE(std::ranges::all_of(tree.nodes(), is_known, &DraftNode::token));
  // The likeliest of the known tokens comes first.
  const auto whole = drafter_of(whole_);
  const auto logits = whole->next_logits();
  const Tokens known = reduced_tokens();
  EXPECT_EQ(tree.token(1), *std::ranges::max_element(known, {}, [&](auto t) { return logits[t]; }));
}

// Breadths above the vocabulary: one child per token.
TEST_F(ReducedDrafterTest, DraftsFromFewTokens) {
  ToyDecoder few(6);
  reduce_vocabulary(few, {testing::kToyEndToken, 9, 30});
  const auto drafter = drafter_of(few);
  const DraftTree tree = drafter->draft({.breadth = 8, .depth = 3, .nodes = 20});
  EXPECT_EQ(tree.node_count(), 20u);
  for (const auto& [token, parent, score] : tree.nodes()) {
    EXPECT_TRUE(token == testing::kToyEndToken || token == 9 || token == 30) << token;
  }
}

TEST(ReducedGenerationTest, WritesOfflineFromReducedVocabularyAndIsCheckedLater) {
  for (const ToyDrafter drafter : {ToyDrafter::moa_reduced, ToyDrafter::twin_reduced}) {
    for (const float temperature : {0.0f, 1.0f}) {
      GenerationRig::Options options{
          .drafter = drafter,
          .sampling = {.temperature = temperature, .seed = 2},
          .resync_wait = Duration::zero(),
          .faults = {{.request = 3, .kind = LinkFault::Kind::lost_request, .wait_calls = 60}}};
      GenerationRig rig(options);
      const Answer answer = rig.answer({5, 6, 7});
      EXPECT_GT(answer.stats.offline_tokens, 0u);
      for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
        if (answer.provenance[i] == Provenance::offline) {
          EXPECT_TRUE(is_known(answer.tokens[i]));
        }
      }
      std::optional<Answer> settled;
      for (int look = 0; look < 100 && !settled; ++look) settled = rig.settle();
      ASSERT_TRUE(settled);
      EXPECT_EQ(settled->tokens, rig.plain({5, 6, 7}).tokens);
    }
  }
}

}  // namespace
}  // namespace edgedraft::client
