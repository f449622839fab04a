#include "shared/drafting/independent/independent_network.h"

#include <gtest/gtest.h>

#include "tests/drafting/whole_levels.h"
#include "tests/runtime/op_test.h"
#include "tests/support/matrix_reading.h"
#include "tests/support/toy_models.h"

namespace edgedraft {
namespace {

using testing::expand_chain;
using testing::read_logits;
using testing::ToyDecoder;
using Tokens = std::vector<std::uint32_t>;

class IndependentNetworkTest : public testing::OpTest {
 protected:
  IndependentNetwork fresh() { return {backend(), toy_.config, toy_.tensors, 128}; }

  ToyDecoder toy_{4};
};

TEST_P(IndependentNetworkTest, DraftedPathMatchesCommittedPathBitForBit) {
  IndependentNetwork drafted = fresh();
  drafted.commit(Tokens{5, 6, 7});
  const auto along_tree = expand_chain(drafted, Tokens{8, 9, 10});

  IndependentNetwork committed = fresh();
  committed.commit(Tokens{5, 6, 7, 8, 9, 10});
  EXPECT_EQ(along_tree, read_logits(committed));
}

TEST_P(IndependentNetworkTest, LevelMatchesSingleNodesBitForBit) {
  IndependentNetwork together = fresh();
  IndependentNetwork apart = fresh();
  for (IndependentNetwork* network : {&together, &apart}) network->commit(Tokens{5, 6, 7});
  testing::expect_levels_have_the_bits_of_their_nodes(together, apart);
}

TEST_P(IndependentNetworkTest, BranchDoesNotSeeSiblings) {
  IndependentNetwork network = fresh();
  network.commit(Tokens{5, 6});
  const std::vector<GrowthNode> level{{.token = 11, .depth = 1, .ancestors = {}},
                                      {.token = 12, .depth = 1, .ancestors = {}}};
  network.expand(level);
  GrowthNode below_second{.token = 13, .depth = 2, .ancestors = {}};
  below_second.ancestors.set(1);
  network.expand(std::span(&below_second, 1));

  IndependentNetwork alone = fresh();
  alone.commit(Tokens{5, 6, 12, 13});
  EXPECT_EQ(read_logits(network), read_logits(alone));
}

TEST_P(IndependentNetworkTest, LogitsDependOnTokensNotHistory) {
  IndependentNetwork network = fresh();
  Random random(17);
  Tokens tokens;
  const auto some_tokens = [&] {
    Tokens some(1 + random.below(5));
    for (auto& t : some) t = static_cast<std::uint32_t>(random.below(testing::kToyVocabulary));
    return some;
  };
  for (int step = 0; step < 30; ++step) {
    if (tokens.size() > 80 || (!tokens.empty() && random.below(3) == 0)) {
      tokens.resize(random.below(tokens.size()));
      network.truncate(static_cast<std::uint32_t>(tokens.size()));
    }
    const Tokens more = some_tokens();
    network.commit(more);
    tokens.insert(tokens.end(), more.begin(), more.end());
    const auto logits = read_logits(network);
    if (random.below(2) == 0) expand_chain(network, some_tokens());  // rejected: leaves no trace

    IndependentNetwork other = fresh();
    other.commit(tokens);
    ASSERT_EQ(logits, read_logits(other)) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, IndependentNetworkTest,
                         ::testing::ValuesIn(testing::drafting_backends()), testing::backend_name);

}  // namespace
}  // namespace edgedraft
