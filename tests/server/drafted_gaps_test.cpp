// A server-side drafter beside devices that draft ahead, listen or pause. Tests when the server
// waits for hints, for which runs it drafts, and its reports.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "netsim/lab/paced_proposer.h"
#include "server/proposers/speculation.h"
#include "tests/server/run_rig.h"

namespace edgedraft::server {
namespace {

class DraftedGapsTest : public RunTest {
 protected:
  // The server's drafter takes `step` per step and is either right or always wrong.
  void open_drafting(bool right, Duration step, Duration pass_time = kPassTime) {
    Tokens text = prompt_;
    for (const std::uint32_t token : expected_) {
      text.push_back(right ? token : token == 5 ? 6 : 5);
    }
    speculation_.emplace(ProposerSource{.make =
                                            [this, text, step](std::shared_ptr<std::uint32_t>) {
                                              return std::make_unique<lab::PacedProposer>(
                                                  std::make_unique<KnownText>(text), step,
                                                  lab::PaceClock{.now = [this] { return now_; },
                                                                 .wait_until =
                                                                     [this](Instant end) {
                                                                       now_ = std::max(now_, end);
                                                                     }});
                                            },
                                        .session_bytes = 0},
                         SpeculationOptions{.tree = {.breadth = 1, .depth = 4, .nodes = 4},
                                            .context_count = kContext,
                                            .now = [this] { return now_; }});
    open({.pace = [pass_time](std::uint32_t rows) { return pass_time + rows * kRowTime; },
          .speculation = &*speculation_,
          .metrics = metrics_});
    loop_->measure_costs(1s);
  }

  // The verdicts of an answer without hints.
  std::vector<wire::Verdict> listened() {
    HintingClient& client = start_run(prompt_);
    expect_whole(client, expected_);
    return client.verdicts;
  }

  // The device has sent four right hints 2 ms after each verdict and they were accepted; the next
  // ones are due.
  HintingClient& punctual(HintingClient& client) {
    for (int i = 0; i < 3; ++i) {
      loop_->step();
      EXPECT_TRUE(client.listen());
      now_ += 2ms;
      EXPECT_TRUE(client.send(client.chain(right(client, expected_, 4))));
    }
    loop_->step();
    EXPECT_TRUE(client.listen());
    EXPECT_EQ(client.verdicts.back().hinted, 4u);
    return client;
  }

  std::optional<Speculation> speculation_;
};

// A client that only listens gains nothing by waiting for another client's hints.
TEST_F(DraftedGapsTest, NeverDelaysListenersForHintsOfOthers) {
  for (const bool beside : {false, true}) {
    open({.metrics = metrics_});
    loop_->measure_costs(1s);
    HintingClient& hinting = start_run(prompt_);
    HintingClient* const listening = beside ? &start_run(prompt_of(2)) : nullptr;
    punctual(hinting);
    const std::uint64_t passes = loop_->count().passes;
    loop_->step();
    EXPECT_EQ(loop_->count().passes - passes, beside ? 1u : 0u);
    EXPECT_EQ(loop_->due().has_value(), !beside) << "waits for hints only if alone";
    if (!beside) continue;
    listening->listen();
    for (const wire::Verdict& verdict : listening->verdicts) EXPECT_EQ(verdict.held_us, 0u);
  }
}

// Otherwise a device that drafts fast would get slower answers.
TEST_F(DraftedGapsTest, DoesNotHoldIfOwnTreeBringsMoreThanHints) {
  for (const bool right : {true, false}) {
    open_drafting(right, Duration());
    for (int i = 0; i < 2; ++i) listened();  // the server learns the value of its trees
    HintingClient& hinting = start_run(prompt_);
    punctual(hinting);
    const std::uint64_t passes = loop_->count().passes;
    loop_->step();
    EXPECT_EQ(loop_->count().passes - passes, right ? 1u : 0u);
    if (!right) continue;
    hinting.listen();
    EXPECT_EQ(hinting.verdicts.back().held_us, 0u);
    EXPECT_GT(hinting.verdicts.back().drafted, 0u);
  }
}

// Drafting for each run in turn does not pay if many share a pass; paused runs do not count.
TEST_F(DraftedGapsTest, PausedRunsDoNotDisableDrafting) {
  open_drafting(true, 2ms, 30ms);
  for (int i = 0; i < 24; ++i) start_run(prompt_, {.credit = kPromptCount + 1});
  run_until_idle();
  loop_->step();
  ASSERT_EQ(loop_->paused_count(), 24u);
  std::size_t passes = 0;
  for (int i = 0; i < 4; ++i) passes = listened().size();
  EXPECT_LT(passes, expected_.size() / 3);
}

}  // namespace
}  // namespace edgedraft::server
