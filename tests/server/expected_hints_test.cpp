// A run's estimate of incoming hints, and the cost of accepting hints.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "server/passes/run.h"
#include "shared/protocol/limits.h"
#include "shared/types/prefix_hash.h"
#include "tests/support/hint_nodes.h"

namespace edgedraft::server {
namespace {

using namespace std::chrono_literals;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kVocabulary = 4096;
const Tokens kRunPrompt{5, 6};

// One hint, `distance` ids after its parent; 0: a child of the prompt's end.
wire::Hints one_hint(std::uint32_t id, std::uint32_t token, std::uint16_t distance = 0,
                     std::uint8_t score = 1) {
  return {.credit = 1000,
          .first = id,
          .position = static_cast<std::uint32_t>(kRunPrompt.size()),
          .prefix_hash = prefix_hash(kRunPrompt),
          .nodes = {{.token = token, .distance = distance, .score = score}}};
}

// Otherwise others would wait for as long as the machine has been running.
TEST(ExpectedHintsTest, OwnExpectationsDoNotCountAsMessages) {
  edgedraft::server::Run run({.credit = 1000}, kRunPrompt, kVocabulary);
  run.expect(Tokens{7, 8});
  ASSERT_TRUE(run.has_hints());
  const Instant first{1h};
  run.take(one_hint(1, 9), first);
  EXPECT_FALSE(run.next_hints(first + 1ms)) << "one message gives no interval";
  run.take(one_hint(2, 10), first + 10ms);
  const auto next = run.next_hints(first + 11ms);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->at, first + 30ms);
}

// If a device stops drafting, the server does not wait for it for the rest of the answer.
TEST(ExpectedHintsTest, StopsExpectingHintsOfSilentDevice) {
  edgedraft::server::Run run({.credit = 1000}, kRunPrompt, kVocabulary);
  Tokens text = kRunPrompt;
  Instant now{1h};
  // Each pass accepts its only hint, and the next one arrives 5 ms later.
  for (std::uint32_t i = 0; i < 4; ++i) {
    wire::Hints hint = one_hint(i + 1, 9);
    hint.position = static_cast<std::uint32_t>(text.size());
    hint.prefix_hash = prefix_hash(text);
    run.take(hint, now);
    ASSERT_TRUE(run.has_hints()) << i;
    run.advance(Tokens{9, 7}, now += 10ms);
    text.insert(text.end(), {9, 7});
    now += 5ms;
  }
  EXPECT_TRUE(run.next_hints(now)) << "the device is drafting";
  for (int i = 0; i < 40; ++i) run.advance(Tokens{7}, now += 10ms);
  EXPECT_FALSE(run.next_hints(now));
}

// Seconds to accept `count` messages of one node each.
template <class Message>
double seconds_to_take(Run& run, std::uint32_t count, const Message& message) {
  const Instant begun = Clock::now();
  for (std::uint32_t i = 0; i < count; ++i) run.take(message(i), begun);
  return seconds(Clock::now() - begun);
}

// The limit counts nodes, so a message to a full tree must not cost a scan of the whole tree.
TEST(ExpectedHintsTest, FullTreeTakesMessagesAboutAsFastAsEmptyOne) {
  constexpr std::uint32_t kMessages = 2000;
  double empty = std::numeric_limits<double>::infinity();
  double full = empty;
  for (int repetition = 0; repetition < 3; ++repetition) {
    edgedraft::server::Run small({.credit = 1000}, kRunPrompt, kVocabulary);
    empty = std::min(empty, seconds_to_take(small, kMessages,
                                            [](std::uint32_t i) { return one_hint(i + 1, 9); }));
    EXPECT_EQ(small.counts().taken, kMessages);

    edgedraft::server::Run large({.credit = 1000}, kRunPrompt, kVocabulary);
    for (std::uint32_t i = 0; i < kHintNodesMax; ++i) large.take(one_hint(i + 1, i), Instant());
    ASSERT_EQ(large.counts().evicted, 0u);
    // Each is the child of another node and less likely than all of them.
    full = std::min(full, seconds_to_take(large, kMessages, [](std::uint32_t i) {
                      const std::uint32_t id = kHintNodesMax + 1 + i;
                      const std::uint32_t parent = 1 + i % kHintNodesMax;
                      return one_hint(id, i, static_cast<std::uint16_t>(id - parent), 200);
                    }));
    EXPECT_EQ(large.counts().taken, kHintNodesMax + kMessages);
    EXPECT_GT(large.counts().evicted, kMessages / 2);
  }
  EXPECT_LT(full, 30.0 * empty);
}

// The tree holds more hints than a pass can take; all remain until contradicted.
TEST(ExpectedHintsTest, ConsidersOnlyBestNodesOfFullTree) {
  const auto length = static_cast<std::uint32_t>(kRunPrompt.size());
  edgedraft::server::Run run({.credit = 1000}, kRunPrompt, kVocabulary);
  for (std::uint32_t i = 0; i < kHintNodesMax; ++i) {
    run.take(one_hint(i + 1, i, 0, static_cast<std::uint8_t>(50 + i % 200)), Instant());
  }
  EXPECT_EQ(run.probabilities().size(), kTreeNodesMax);
  EXPECT_EQ(run.choose(1, length).node_count(), 1u);
  EXPECT_TRUE(run.choose(0, length).empty());
}

// The next pass uses every change in the value of hints.
TEST(ExpectedHintsTest, UpdatesProbabilitiesOnHintsAndAcceptance) {
  const auto length = static_cast<std::uint32_t>(kRunPrompt.size());
  edgedraft::server::Run run({.credit = 1000}, kRunPrompt, kVocabulary);
  run.take(one_hint(1, 9, 0, 8), Instant());
  ASSERT_EQ(run.probabilities().size(), 1u);
  const double said = run.probabilities()[0];
  run.take(one_hint(2, 10, 0, 1), Instant());
  ASSERT_EQ(run.probabilities().size(), 2u);
  EXPECT_EQ(run.choose(1, length).token(1), 10u) << "the likelier hint";
  run.choose(2, length);
  run.observe({});
  EXPECT_LT(run.probabilities()[1], said) << "no hint was accepted";
  DraftTree guesses;
  guesses.add(11, 0, -0.1f);
  run.propose(guesses);
  EXPECT_EQ(run.probabilities().size(), 3u);
  run.advance(Tokens{10}, Instant());
  EXPECT_TRUE(run.probabilities().empty());
  run.expect(Tokens{12});
  EXPECT_EQ(run.probabilities().size(), 1u);
}

// A device that is sure of nonsense, and a device that sends no hints at the moment. Passes take
// 10 ms and 0.1 ms per hint.
class VainHintsTest : public ::testing::Test {
 protected:
  // Passes of both until the first has chosen `tokens` more. Returns the time of all.
  double seconds_of(std::size_t tokens, const std::function<wire::Hints()>& hints) {
    double taken = 0.0;
    const std::size_t end = text_.size() + tokens;
    while (text_.size() < end) {
      run_.take(hints(), Instant());
      const std::vector<RunOffer> offers{
          {.probabilities = run_.probabilities(), .history = {.was_hinted = true}},
          {.history = {.was_hinted = true}}};
      const HintSelection selection = select_hints({.rows_max = 256}, offers, paced, Instant());
      const auto length = static_cast<std::uint32_t>(text_.size());
      const DraftTree& tree = run_.choose(selection.taken[0], length);
      taken += paced(2 + tree.node_count());
      std::vector<std::uint32_t> path;
      Tokens chosen;
      std::uint32_t row = 0;
      do {
        chosen.push_back(token_at(text_.size()));
        text_.push_back(chosen.back());
        row = tree.child(row, chosen.back());
        if (row != 0) path.push_back(row);
      } while (row != 0);
      run_.observe(path);
      run_.advance(chosen, Instant());
    }
    return taken;
  }
  wire::Hints below_text(std::vector<HintNode> nodes) {
    wire::Hints hints{.credit = 5000,
                      .first = next_id_,
                      .position = static_cast<std::uint32_t>(text_.size()),
                      .prefix_hash = prefix_hash(text_),
                      .nodes = std::move(nodes)};
    next_id_ += static_cast<std::uint32_t>(hints.nodes.size());
    return hints;
  }
  wire::Hints nonsense(std::uint8_t score) {
    std::vector<HintNode> nodes;
    for (std::uint32_t branch = 0; branch < 8; ++branch) {
      for (HintNode node : testing::hint_chain(Tokens(16, 1000 + branch), score)) {
        nodes.push_back(node);
      }
    }
    return below_text(std::move(nodes));
  }
  wire::Hints right(std::uint8_t score) {
    Tokens follows;
    for (std::size_t i = 0; i < 4; ++i) follows.push_back(token_at(text_.size() + i));
    return below_text(testing::hint_chain(follows, score));
  }

  static double paced(std::uint32_t rows) { return 0.010 + 0.0001 * rows; }
  static std::uint32_t token_at(std::size_t position) {
    return 100 + static_cast<std::uint32_t>(position % 50);
  }

  Tokens text_ = kRunPrompt;
  std::uint32_t next_id_ = 1;
  edgedraft::server::Run run_{{.credit = 5000}, kRunPrompt, kVocabulary};
};

TEST_F(VainHintsTest, HardlyDelayOthersAndRightOnesReturn) {
  for (const std::uint8_t score : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{3}}) {
    text_ = kRunPrompt;
    next_id_ = 1;
    run_ = edgedraft::server::Run({.credit = 5000}, kRunPrompt, kVocabulary);
    EXPECT_LE(seconds_of(400, [&] { return nonsense(score); }), 1.1 * 400 * paced(2)) << int{score};
    EXPECT_LE(seconds_of(200, [&] { return right(score); }), 0.5 * 200 * paced(2)) << int{score};
  }
}

}  // namespace
}  // namespace edgedraft::server
