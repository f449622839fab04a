#include "client/generation/online/draft_ahead.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "netsim/lab/oracle_drafter.h"
#include "server/hints/hint_tree.h"
#include "shared/base/random.h"
#include "shared/types/prefix_hash.h"

namespace edgedraft::client {
using namespace server;
namespace {

using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kVocabulary = 1000;
const Tokens kPrompt{1, 2, 3};

Tokens answer_of(std::size_t count) {
  Tokens answer(count);
  std::iota(answer.begin(), answer.end(), 100);
  return answer;
}

wire::Hints as_read(const SentHints::Batch& batch, const Tokens& text) {
  return {.round = 1,
          .first = batch.first,
          .position = static_cast<std::uint32_t>(text.size()),
          .prefix_hash = prefix_hash(text),
          .nodes = batch.nodes};
}

TEST(SentHintsTest, SendsOnlyNewNodesWithScoresRelativeToParents) {
  SentHints sent;
  DraftTree tree;
  tree.add(5, 0, -0.5f);
  tree.add(6, 1, -0.75f);
  SentHints::Batch batch = sent.take(tree, -10.0f);
  EXPECT_EQ(batch.first, 1u);
  EXPECT_EQ(batch.nodes, (std::vector<HintNode>{{.token = 5, .distance = 0, .score = 4},
                                                {.token = 6, .distance = 1, .score = 2}}));
  tree.add(7, 1, -2.0f);
  tree.add(8, 3, -20.0f);
  batch = sent.take(tree, -10.0f);
  EXPECT_EQ(batch.first, 3u);
  EXPECT_EQ(batch.nodes, (std::vector<HintNode>{{.token = 7, .distance = 2, .score = 12}}))
      << "the other node is below the floor";
  EXPECT_TRUE(sent.take(tree, -10.0f).nodes.empty());
}

TEST(SentHintsTest, FollowsTreeToNewRoot) {
  SentHints sent;
  DraftTree tree;
  tree.add(5, 0, -0.5f);
  tree.add(6, 1, -0.5f);
  tree.add(7, 2, -0.5f);
  sent.take(tree, -10.0f);
  sent.reroot(Tokens{5});
  DraftTree below;
  below.add(6, 0, 0.0f);
  below.add(7, 1, 0.0f);
  below.add(8, 1, -0.25f);
  below.add(9, 0, -0.25f);
  const SentHints::Batch batch = sent.take(below, -10.0f);
  EXPECT_EQ(batch.first, 4u);
  EXPECT_EQ(batch.nodes, (std::vector<HintNode>{{.token = 8, .distance = 2, .score = 2},
                                                {.token = 9, .distance = 0, .score = 2}}));
  sent.reroot(Tokens{1});
  EXPECT_EQ(sent.take(below, -10.0f).nodes.size(), 4u) << "no nodes of this text were sent before";
}

TEST(DraftAheadTest, BatchesStepsPerMessageUnlessServerHasNoHints) {
  lab::OracleDrafter drafter({.answer = answer_of(100), .acceptance = 0.9, .seed = 1}, kVocabulary,
                             0);
  drafter.append(kPrompt);
  DraftAhead ahead(drafter, {.breadth = 4, .floor = std::log(0.05f), .steps = 3});
  EXPECT_TRUE(ahead.done()) << "no run has begun";
  ahead.begin();
  ahead.step();
  EXPECT_FALSE(ahead.unsent().nodes.empty()) << "the first message is sent at once";
  for (int step = 1; step <= 3; ++step) {
    ahead.step();
    EXPECT_EQ(ahead.unsent().nodes.empty(), step < 3) << step;
  }
}

TEST(DraftAheadTest, DraftsDeeperIfConfidentAndStopsAtFloor) {
  const auto depth_at = [](double acceptance) {
    lab::OracleDrafter drafter({.answer = answer_of(100), .acceptance = acceptance, .seed = 1},
                               kVocabulary, 0);
    drafter.append(kPrompt);
    DraftAhead ahead(drafter, {.breadth = 1, .floor = std::log(0.1f), .steps = 1});
    ahead.begin();
    std::uint32_t depth = 0;
    while (!ahead.done()) {
      ahead.step();
      depth += static_cast<std::uint32_t>(ahead.unsent().nodes.size());
    }
    return depth;
  };
  EXPECT_EQ(depth_at(0.5), 3u);  // 0.5, 0.25, 0.125
  EXPECT_EQ(depth_at(0.8), 10u);
  EXPECT_EQ(depth_at(1.0), kTreeDepthMax);
}

// Nodes grown as a chain had one token tried each, whatever the breadth is later.
TEST(DraftAheadTest, RemembersMinimumBreadthOfTree) {
  lab::OracleDrafter drafter({.answer = answer_of(100), .acceptance = 1.0, .seed = 1}, kVocabulary,
                             0);
  drafter.append(kPrompt);
  DraftAhead ahead(drafter, {.breadth = 1, .floor = std::log(0.1f), .steps = 1});
  ahead.begin();
  ahead.advance({}, 20);
  ahead.step();
  ahead.step();
  ahead.set({.breadth = 4, .floor = std::log(0.1f), .steps = 1});
  EXPECT_EQ(ahead.breadth_min(), 1u);
  drafter.append(Tokens{100});
  ahead.advance(Tokens{100}, 20);
  EXPECT_EQ(ahead.breadth_min(), 1u) << "the rest of the chain remains";
  drafter.append(Tokens{7});
  ahead.advance(Tokens{7}, 20);
  EXPECT_EQ(ahead.breadth_min(), 4u) << "nothing of the chain remains";
}

TEST(DraftAheadTest, DraftsNothingBeyondRequestedLength) {
  lab::OracleDrafter drafter({.answer = answer_of(100), .acceptance = 1.0, .seed = 1}, kVocabulary,
                             0);
  drafter.append(kPrompt);
  DraftAhead ahead(drafter, {.breadth = 1, .floor = std::log(0.1f), .steps = 1});
  ahead.begin();
  ahead.advance({}, 2);
  std::size_t nodes = 0;
  while (!ahead.done()) {
    ahead.step();
    nodes += ahead.unsent().nodes.size();
  }
  EXPECT_EQ(nodes, 2u);
  drafter.append(Tokens{100, 101, 102});
  ahead.advance(Tokens{100, 101, 102}, 0);
  EXPECT_TRUE(ahead.done());
}

// The server's tree from the messages equals the device's, for any verdicts.
TEST(DraftAheadTest, ServerTreeEqualsDeviceTree) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const Tokens answer = answer_of(60);
    lab::OracleDrafter drafter({.answer = answer, .acceptance = 0.7, .seed = seed}, kVocabulary, 0);
    drafter.append(kPrompt);
    DraftAhead ahead(drafter, {.breadth = 4, .floor = std::log(0.05f), .steps = 2});
    ahead.begin();
    HintTree server(kPrompt, {.nodes_max = 1000, .vocabulary_count = kVocabulary});
    Tokens text = kPrompt;
    std::size_t known = 0;
    while (known < answer.size()) {
      for (std::uint64_t steps = random.below(5); steps > 0 && !ahead.done(); --steps) {
        ahead.step();
        server.add(as_read(ahead.unsent(), text));
      }
      const auto count = static_cast<std::ptrdiff_t>(
          1 + random.below(std::min<std::size_t>(4, answer.size() - known)));
      const auto first = answer.begin() + static_cast<std::ptrdiff_t>(known);
      const Tokens tokens(first, first + count);
      known += tokens.size();
      text.insert(text.end(), tokens.begin(), tokens.end());
      server.advance(tokens);
      drafter.append(tokens);
      ahead.advance(tokens, 30);
    }
    EXPECT_EQ(server.counts().unknown, 0u);
    EXPECT_EQ(server.counts().contradicted, 0u) << "both trees agree";
  }
}

}  // namespace
}  // namespace edgedraft::client
