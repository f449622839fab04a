// Hints and credit that arrive during a slow pass.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "shared/protocol/limits.h"
#include "tests/server/held_scheduler.h"

namespace edgedraft::server {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kConnection = 1;
constexpr std::uint32_t kPromptLength = 2;

// The length of a client's text.
class Length final : public Replies {
 public:
  void verdict(wire::Verdict verdict) override {
    const std::lock_guard lock(mutex_);
    value_ += static_cast<std::uint32_t>(verdict.tokens.size()) + 1;
    hinted_ += verdict.hinted;
    changed_.notify_all();
  }
  void activations(wire::Activations) override { ADD_FAILURE() << "activations without a tap"; }
  void refuse(std::uint32_t, Error error) override { ADD_FAILURE() << error.message; }

  // Returns false if the text does not reach `length` in time.
  bool wait_for(std::uint32_t length) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, [&] { return value_ >= length; });
  }
  std::uint32_t hinted() {
    const std::lock_guard lock(mutex_);
    return hinted_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t value_ = kPromptLength;
  std::uint32_t hinted_ = 0;
};

class WaitingHintsTest : public testing::HeldSchedulerTest {
 protected:
  // A run whose prompt is in a pass that does not end.
  void begin(const wire::RunTerms& run = {.credit = kPromptLength + 1}) {
    scheduler_.post({.connection_id = kConnection,
                     .reply = length_,
                     .session = {},
                     .identity = "someone",
                     .tap = nullptr},
                    wire::Prefill{.round = 1, .tokens = {5, 6}, .run = run});
    pass_.wait_begun();
  }
  void give(std::uint32_t credit, wire::Hold hold = wire::Hold::none) {
    scheduler_.hints(kConnection, {.round = 1, .credit = credit, .hold = hold});
  }
  // Hints about an unknown text.
  void hint(std::uint32_t first, std::uint32_t nodes, wire::Hold hold = wire::Hold::none) {
    scheduler_.hints(kConnection, {.round = 1,
                                   .hold = hold,
                                   .first = first,
                                   .position = kPromptLength,
                                   .prefix_hash = 1,
                                   .nodes = std::vector<HintNode>(nodes, {.token = 5})});
  }

  const std::shared_ptr<Length> length_ = std::make_shared<Length>();
};

TEST_F(WaitingHintsTest, CreditNeverShrinks) {
  begin();
  give(10);
  give(4);
  give(0);
  pass_.end();
  EXPECT_TRUE(length_->wait_for(10));
}

// The run must not start a pass for its root alone.
TEST_F(WaitingHintsTest, LastHoldApplies) {
  begin();
  give(0);
  hint(1, 1);
  give(kPromptLength + 3, wire::Hold::economy);
  const Instant begun = Clock::now();
  pass_.end();
  ASSERT_TRUE(length_->wait_for(kPromptLength + 3));
  EXPECT_GE(Clock::now() - begun, 250ms);
}

TEST_F(WaitingHintsTest, LimitsQueuedHintsPerConnection) {
  constexpr std::uint32_t kNodes = 20;
  constexpr std::uint32_t kMessages = 1000;
  begin();
  for (std::uint32_t i = 0; i < kMessages; ++i) hint(1 + i * kNodes, kNodes);
  give(10);
  pass_.end();
  ASSERT_TRUE(length_->wait_for(10)) << "credit applies although hints are dropped";
  std::uint64_t nodes = 0;
  for (const Counter& fate : metrics_->hints) nodes += fate.value();
  const auto most = static_cast<std::uint32_t>(kHintsBurst);
  EXPECT_EQ(nodes, most / (kHintMessageCost + kNodes) * kNodes);
}

// A run under lockstep would wait for them in vain.
TEST_F(WaitingHintsTest, AcceptsCompleteHintsDespiteFullQueue) {
  begin({.credit = kPromptLength + 3, .hold = wire::Hold::lockstep});
  for (std::uint32_t i = 0; i < 1000; ++i) hint(1 + i * 20, 20);
  scheduler_.hints(
      kConnection,
      {.round = 1, .complete = true, .position = kPromptLength + 1, .nodes = {{.token = 5}}});
  pass_.end();
  ASSERT_TRUE(length_->wait_for(kPromptLength + 2));
  EXPECT_EQ(length_->hinted(), 1u);
}

// Hints of a round free their queue space when the round ends.
TEST_F(WaitingHintsTest, FreesHintsOfCancelledRounds) {
  begin();
  for (std::uint32_t round = 2; round < 100; ++round) {
    scheduler_.hints(kConnection, {.round = round,
                                   .first = 1,
                                   .position = kPromptLength,
                                   .nodes = std::vector<HintNode>(kHintsMax, {.token = 5})});
    scheduler_.hints(kConnection, {.round = round, .credit = 10});
    scheduler_.cancel(kConnection, round);
  }
  hint(1, 100);
  give(10);
  pass_.end();
  ASSERT_TRUE(length_->wait_for(10));
  EXPECT_EQ(metrics_->hints[static_cast<std::size_t>(HintFate::unknown)].value(), 100u);
}

}  // namespace
}  // namespace edgedraft::server
