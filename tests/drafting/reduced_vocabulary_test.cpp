// Networks whose head covers only some of the tokens.
#include <gtest/gtest.h>

#include <algorithm>

#include "shared/drafting/independent/independent_network.h"
#include "shared/drafting/moa/moa_network.h"
#include "tests/runtime/op_test.h"
#include "tests/support/matrix_reading.h"
#include "tests/support/toy_models.h"

namespace edgedraft {
namespace {

using testing::expand_chain;
using testing::read_logits;
using testing::ToyDecoder;
using testing::ToyMoa;
using Tokens = std::vector<std::uint32_t>;

class ReducedVocabularyTest : public testing::OpTest {
 protected:
  // The reduced network's logits equal those columns of the whole network's bit for bit, after
  // committed tokens and along a tree.
  void expect_same_columns(DraftNetwork& reduced, DraftNetwork& whole) {
    EXPECT_EQ(whole.draft_tokens().size(), 0u);
    EXPECT_TRUE(std::ranges::equal(reduced.draft_tokens(), tokens_));
    EXPECT_EQ(reduced.vocabulary_count(), testing::kToyVocabulary);
    reduced.commit(Tokens{5, 6, 7});
    whole.commit(Tokens{5, 6, 7});
    EXPECT_EQ(read_logits(reduced), some_columns(read_logits(whole)));
    EXPECT_EQ(expand_chain(reduced, Tokens{8, 9}), some_columns(expand_chain(whole, Tokens{8, 9})));
  }

  std::vector<float> some_columns(const std::vector<float>& logits) const {
    std::vector<float> some;
    for (const std::uint32_t token : tokens_) some.push_back(logits[token]);
    return some;
  }

  const Tokens tokens_{2, 3, 17, 40, 63};
};

TEST_P(ReducedVocabularyTest, IndependentNetworkKeepsLogitsOfItsTokens) {
  const ToyDecoder toy(4);
  ToyDecoder some(4);
  reduce_vocabulary(some, tokens_);
  IndependentNetwork whole(backend(), toy.config, toy.tensors, 128);
  IndependentNetwork reduced(backend(), some.config, some.tensors, 128);
  expect_same_columns(reduced, whole);
}

TEST_P(ReducedVocabularyTest, MoaNetworkKeepsLogitsOfItsTokens) {
  const ToyDecoder toy(4);
  for (const std::uint32_t tli : {0u, 1u, 3u}) {
    SCOPED_TRACE(tli);
    const ToyMoa moa(toy, 40, tli);
    ToyMoa some(toy, 40, tli);
    reduce_vocabulary(some, tokens_);
    MoaNetwork whole(backend(), moa.config, moa.tensors, 128);
    MoaNetwork reduced(backend(), some.config, some.tensors, 128);
    expect_same_columns(reduced, whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ReducedVocabularyTest,
                         ::testing::ValuesIn(testing::all_backends()), testing::backend_name);

}  // namespace
}  // namespace edgedraft
