// Runs: the server continues by itself, with hints arriving at any time.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "server/proposers/speculation.h"
#include "tests/protocol/support.h"
#include "tests/server/run_rig.h"

namespace edgedraft::server {
namespace {

// Rows that encode their position.
void tell_positions(std::uint32_t first, std::span<float> rows) {
  std::iota(rows.begin(), rows.end(), static_cast<float>(first));
}

TEST_F(RunTest, RightHintsSavePassesAndWrongOnesAreHarmless) {
  for (const bool good : {true, false}) {
    HintingClient& client = start_run(prompt_);
    const std::uint64_t before = loop_->count().passes;
    while (!client.ended()) {
      loop_->step();
      if (!client.listen()) break;
      Tokens follows = right(client, expected_, 5);
      if (!good) std::ranges::reverse(follows);
      ASSERT_TRUE(client.send(client.chain(follows)));
    }
    EXPECT_EQ(client.answer(), expected_);
    const std::uint64_t passes = loop_->count().passes - before;
    if (good) {
      EXPECT_LE(passes, expected_.size() / 5 + 3);
    } else {
      EXPECT_LE(passes, expected_.size() + 1);
    }
    client.raw().leave();
  }
}

TEST_F(RunTest, AcceptsHintsBeforeFirstVerdict) {
  HintingClient& client = start_run(prompt_);
  ASSERT_TRUE(client.send(client.chain(right(client, expected_, 6))));
  loop_->step();  // the prompt
  loop_->step();
  client.listen();
  ASSERT_EQ(client.verdicts.size(), 2u);
  EXPECT_EQ(client.verdicts[1].tokens.size(), 5u);
  EXPECT_EQ(client.verdicts[1].hinted, 5u);
  EXPECT_EQ(client.verdicts[1].hints_seen, 6u);
}

TEST_F(RunTest, PausesAtEndOfCredit) {
  HintingClient& client = start_run(prompt_, {.credit = 10});
  ASSERT_TRUE(client.send(client.chain(right(client, expected_, 20))));
  run_until_idle();
  EXPECT_TRUE(client.listen());
  EXPECT_EQ(client.text().size(), 10u);
  now_ += 1h;
  run_until_idle();
  ASSERT_TRUE(client.send(client.credit(kContext)));
  expect_whole(client, expected_);
}

// All rows, or only the newest if the client reads no other.
TEST_F(RunTest, SendsRequestedRowsAfterTheirVerdict) {
  testing::TapBy tap(1, tell_positions);
  for (const bool newest_row : {false, true}) {
    SCOPED_TRACE(newest_row);
    HintingClient& client = connect(&tap, newest_row);
    ASSERT_TRUE(client.begin(prompt_, {}, {.credit = 20, .rows = true}));
    loop_->step();
    ASSERT_TRUE(client.listen());
    ASSERT_TRUE(client.send(client.chain(right(client, expected_, 3))));
    loop_->step();
    client.listen();
    const wire::Verdict& verdict = client.verdicts.at(1);
    EXPECT_EQ(verdict.tokens.size(), 3u);
    EXPECT_TRUE(verdict.activations.empty());
    const std::uint32_t count = newest_row ? 1 : 4;
    const wire::Activations& chunk = client.raw().activations.back();
    EXPECT_EQ(chunk.round, verdict.round);
    EXPECT_EQ(chunk.first, verdict.length - count - 1);
    ASSERT_EQ(chunk.count, count);
    const auto rows = dequantize_rows(ActivationLayout({1}), count, chunk.data);
    ASSERT_TRUE(rows);
    for (std::uint32_t i = 0; i < count; ++i) {
      EXPECT_NEAR((*rows)[i], static_cast<float>(chunk.first + i), 0.1);
    }
  }
}

TEST_F(RunTest, SlowReaderDelaysOnlyItsOwnPromptRows) {
  testing::TapBy tap(1, tell_positions);
  HintingClient& slow = connect(&tap);
  HintingClient& quick = connect(&tap);
  slow.raw().reads(false);
  ASSERT_TRUE(slow.begin(prompt_of(1), {}, {}));
  ASSERT_TRUE(quick.begin(prompt_of(2), {}, {}));
  run_until_idle();
  EXPECT_TRUE(loop_->idle());
  EXPECT_TRUE(slow.raw().activations.empty());
  ASSERT_EQ(quick.raw().activations.size(), 1u);
  EXPECT_EQ(quick.raw().activations[0].count, kPromptCount);

  slow.raw().reads(true);
  EXPECT_FALSE(loop_->idle());
  run_until_idle();
  ASSERT_EQ(slow.raw().activations.size(), 1u);
  EXPECT_EQ(slow.raw().activations[0].count, kPromptCount);
}

TEST_F(RunTest, CancelStopsRunAndNextOneContinuesItsText) {
  HintingClient& client = start_run(prompt_);
  for (int i = 0; i < 4; ++i) loop_->step();
  client.listen();
  ASSERT_TRUE(client.raw().send(wire::Cancel{}));
  const std::uint64_t passes = loop_->count().passes;
  run_until_idle();
  EXPECT_EQ(loop_->count().passes, passes);
  ASSERT_TRUE(client.go_on({}, {.credit = kContext}));
  expect_whole(client, expected_);
}

// The connection broke, but server and device both continued.
TEST_F(RunTest, ChecksOfflineTextAgainstTokensDecidedMeanwhile) {
  for (const std::size_t right_count : {0, 2, 5}) {
    open({.metrics = metrics_});
    HintingClient& before = start_run(prompt_, {.credit = kPromptCount + 10});
    for (int i = 0; i < 3; ++i) loop_->step();
    ASSERT_TRUE(before.listen());
    const Tokens known = before.text();
    Tokens offline = right(before, expected_, right_count);
    for (std::size_t i = right_count; i < 5; ++i) offline.push_back(4);
    run_until_idle();
    before.raw().leave();

    HintingClient& after = connect();
    const std::uint64_t passes = loop_->count().passes;
    ASSERT_TRUE(after.resume(before.raw().client().session, known, offline, kContext));
    ASSERT_TRUE(after.listen()) << "answered at once";
    EXPECT_EQ(loop_->count().passes, passes);
    EXPECT_EQ(after.verdicts.at(0).accepted_count, right_count);
    expect_whole(after, expected_);
    EXPECT_LT(after.verdicts.size(), prompt_.size() + expected_.size() - known.size() - right_count)
        << "decided tokens are not recomputed one per pass";
  }
}

TEST_F(RunTest, ClientThatDoesNotReadPausesOnlyItsRun) {
  HintingClient& deaf = start_run(prompt_);
  HintingClient& other = start_run(prompt_);
  loop_->step();
  deaf.raw().reads(false);
  run_until_idle();
  deaf.listen();
  EXPECT_LT(deaf.answer().size(), 3u);
  EXPECT_FALSE(other.listen());
  deaf.raw().reads(true);
  expect_whole(deaf, expected_);
}

TEST_F(RunTest, EconomySkipsRootPassesWhileHintsAreUnderWay) {
  for (const wire::Hold hold : {wire::Hold::none, wire::Hold::economy}) {
    open({.metrics = metrics_});
    loop_->measure_costs(1s);
    HintingClient& client = start_run(prompt_, {.credit = kContext, .hold = hold});
    loop_->step();
    ASSERT_TRUE(client.listen());
    // Three passes take less time than a hint needs over this link.
    while (!client.ended()) {
      const Instant arrival = now_ + 35ms;
      wire::Hints hints = client.chain(right(client, expected_, 4));
      hints.hold = hold;
      const Tokens behind = client.text();
      while (now_ < arrival) {
        if (loop_->idle()) {
          now_ = std::min(arrival, loop_->due().value_or(arrival));
        }
        loop_->step();
      }
      if (!client.raw().send(hints, behind)) break;
      loop_->step();
      if (!client.listen()) break;
    }
    EXPECT_EQ(client.answer(), expected_);
    if (hold == wire::Hold::economy) {
      EXPECT_LE(client.verdicts.size(), expected_.size() / 4 + 4);
    } else {
      EXPECT_GT(client.verdicts.size(), expected_.size() / 3);
    }
  }
}

// Under an operator's economy, passes of a client without hints do not wait.
TEST_F(RunTest, ServerEconomyWaitsOnlyForClientsWithHints) {
  open({.economy = Economy::on, .metrics = metrics_});
  loop_->measure_costs(1s);
  HintingClient& plain_client = start_run(prompt_);
  expect_whole(plain_client, expected_);

  // After this client's first hints, the server waits for more.
  HintingClient& hinting = start_run(prompt_);
  loop_->step();
  ASSERT_TRUE(hinting.listen());
  ASSERT_TRUE(hinting.send(hinting.chain(right(hinting, expected_, 2))));
  loop_->step();
  loop_->step();
  EXPECT_TRUE(hinting.listen());
  EXPECT_TRUE(loop_->due());
}

// A step waits for hints that never come, longer than the limit for a busy server.
TEST_F(RunTest, HoldForHintsDoesNotTimeOut) {
  open({.wait_max = 100ms, .metrics = metrics_});
  HintingClient& client =
      start_run(prompt_, {.credit = kPromptCount + 3, .hold = wire::Hold::economy});
  for (int i = 0; i < 20; ++i) {
    loop_->step();
    if (loop_->idle()) now_ = loop_->due().value_or(now_ + 1s);
  }
  EXPECT_TRUE(client.listen());
  EXPECT_EQ(client.text().size(), kPromptCount + 3);
}

TEST_F(RunTest, ServerGuessesFillGapsBetweenHints) {
  std::uint64_t asked = 0;
  Speculation speculation(
      {.make =
           [&](std::shared_ptr<std::uint32_t>) {
             return std::make_unique<KnownText>(whole_text(), 0, &asked);
           },
       .session_bytes = 0},
      {.tree = {.breadth = 1, .depth = 4, .nodes = 4}, .context_count = kContext});
  open({.speculation = &speculation, .metrics = metrics_});
  HintingClient& alone = start_run(prompt_);
  expect_whole(alone, expected_);
  EXPECT_LT(alone.verdicts.size(), expected_.size() / 2);
  EXPECT_GT(alone.verdicts[1].drafted, 0u);
  EXPECT_EQ(alone.verdicts[1].hinted, 0u);

  HintingClient& hinting = start_run(prompt_);
  loop_->step();
  ASSERT_TRUE(hinting.listen());
  ASSERT_TRUE(hinting.send(hinting.chain(right(hinting, expected_, 3))));
  const std::uint64_t asked_before = asked;
  loop_->step();
  hinting.listen();
  EXPECT_EQ(asked, asked_before) << "the server guesses only without hints";
  EXPECT_EQ(hinting.verdicts.at(1).hinted, 3u);
  EXPECT_EQ(hinting.verdicts.at(1).drafted, 0u);
}

// The expected tokens of a device's next hints decide how long other runs wait. Neither more nodes
// nor better scores raise them above the acceptance measured in passes.
TEST(RunExpectationTest, FollowsAcceptanceInsteadOfScores) {
  for (const bool invented : {false, true}) {
    const Tokens prompt = {5, 6};
    constexpr std::uint32_t kDrafted = 40;
    const Tokens chosen = invented ? Tokens{8} : Tokens(9, 7);
    edgedraft::server::Run run({.credit = 1000}, prompt, kToyVocabulary);
    Tokens text = prompt;
    Instant now = Instant() + 1s;
    std::uint32_t next_id = 1;
    const auto send = [&] {
      wire::Hints hints{.credit = 1000,
                        .first = next_id,
                        .position = static_cast<std::uint32_t>(text.size()),
                        .prefix_hash = prefix_hash(text),
                        .nodes = std::vector<HintNode>(kDrafted, {.token = 7, .distance = 1})};
      hints.nodes[0].distance = 0;
      next_id += kDrafted;
      run.take(hints, now);
    };
    const auto pass = [&] {
      const auto length = static_cast<std::uint32_t>(text.size());
      ASSERT_EQ(run.choose(8, length).node_count(), 8u);
      now += 10ms;
      text.insert(text.end(), chosen.begin(), chosen.end());
      run.advance(chosen, now);
    };
    send();
    pass();
    now += 10ms;
    send();
    const auto next = run.next_hints(now);
    ASSERT_TRUE(next);
    EXPECT_EQ(next->a_pass, invented ? 0.0 : 8.0);
    EXPECT_LE(next->tokens, next->a_pass);
    EXPECT_EQ(next->tokens > 0.0, !invented);
  }
}

// The device announces hints but sends none.
TEST_F(RunTest, SilentDeviceDoesNotDelayOtherClients) {
  HintingClient& silent =
      start_run(prompt_, {.credit = kContext, .rows = true, .hold = wire::Hold::economy});
  HintingClient& other = start_run(prompt_);
  const Instant begun = now_;
  while (other.listen()) loop_->step();
  EXPECT_EQ(other.answer(), expected_);
  EXPECT_LT(now_ - begun, (expected_.size() + 3) * (kPassTime + 16 * kRowTime));
  while (silent.listen()) {
    if (loop_->idle()) {
      ASSERT_TRUE(loop_->due()) << "the run waits without a deadline";
      now_ = *loop_->due();
    }
    loop_->step();
  }
  EXPECT_EQ(silent.answer(), expected_) << "the run continues without hints";
}

}  // namespace
}  // namespace edgedraft::server
