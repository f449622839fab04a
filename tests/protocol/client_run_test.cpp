// Runs and hints on the client's side of a connection.
#include <gtest/gtest.h>

#include "tests/protocol/client_protocol_rig.h"

namespace edgedraft {
namespace {

class ClientRunTest : public ClientProtocolTest {
 protected:
  static wire::Hints hint(std::uint32_t position) {
    return {.first = 1, .position = position, .nodes = {{.token = 5, .score = 2}}};
  }
};

TEST_F(ClientRunTest, ReceivesVerdictsUntilAnswerEnds) {
  sign_in();
  wire::Prefill request = prompt_of(10);
  request.run = {.credit = 16, .rows = true};
  ASSERT_TRUE(protocol_.prefill(outgoing(request)));
  ASSERT_TRUE(protocol_.hints(outgoing(hint(10)))) << "hints before the first verdict";
  ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = 11, .next = 7}));
  auto event = expect_event<VerdictReceived>();
  EXPECT_EQ(event.to, VerdictReceived::To::prefill);
  EXPECT_TRUE(event.more);

  ASSERT_TRUE(protocol_.hints(outgoing(hint(11))));
  ASSERT_TRUE(
      hear(wire::Verdict{.round = 1, .length = 14, .next = 7, .tokens = {5, 6}, .hinted = 2}));
  event = expect_event<VerdictReceived>();
  EXPECT_EQ(event.to, VerdictReceived::To::run);
  EXPECT_TRUE(event.more);
  EXPECT_EQ(protocol_.length(), 14u);

  ASSERT_TRUE(
      hear(wire::Verdict{.round = 1, .length = 15, .next = 8, .ending = wire::Ending::end_token}));
  EXPECT_FALSE(expect_event<VerdictReceived>().more);
  EXPECT_FALSE(protocol_.in_flight());
  take_messages(protocol_);
  EXPECT_TRUE(protocol_.hints(outgoing(hint(15)))) << "hints after the answer's end are dropped";
  EXPECT_FALSE(protocol_.has_output());
}

TEST_F(ClientRunTest, AcceptsRowsAfterTheirVerdicts) {
  begin_run({.credit = 20, .rows = true});
  const auto rows = [](std::uint32_t first, std::uint32_t count) {
    return wire::Activations{
        .round = 1, .first = first, .count = count, .data = packed_rows(first, count)};
  };
  ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = 13, .next = 7, .tokens = {5}}));
  EXPECT_TRUE(expect_event<VerdictReceived>().rows.empty());
  ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = 14, .next = 7}))
      << "verdict before the rows";
  expect_event<VerdictReceived>();
  // Rows of the prompt may arrive in between.
  ASSERT_TRUE(hear(rows(10, 2)));
  const auto event = expect_event<ActivationsReceived>();
  EXPECT_TRUE(event.of_run);
  EXPECT_EQ(event.first, 10u);
  EXPECT_EQ(event.count, 2u);
  ASSERT_TRUE(hear(rows(0, 10)));
  EXPECT_TRUE(expect_event<ActivationsReceived>().complete);
  ASSERT_TRUE(hear(rows(12, 1)));
  EXPECT_TRUE(expect_event<ActivationsReceived>().of_run);
  ASSERT_TRUE(
      hear(wire::Verdict{.round = 1, .length = 15, .next = 8, .ending = wire::Ending::end_token}));
  expect_event<VerdictReceived>();
  ASSERT_TRUE(hear(rows(13, 1))) << "rows after the answer's end";
  EXPECT_TRUE(expect_event<ActivationsReceived>().of_run);

  for (const auto& [first, count] : {std::pair(13u, 1u), {14u, 1u}, {15u, 1u}, {8u, 1u}}) {
    begin_run({.credit = 20, .rows = true});
    ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = 15, .next = 7, .tokens = {5, 6, 7}}));
    ASSERT_TRUE(hear(rows(10, 3)));
    const bool fits = first == 13;
    EXPECT_EQ(code_after(rows(first, count)), fits ? Errc::cancelled : Errc::protocol) << first;
  }
  begin_run({.credit = 20});
  ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = 13, .next = 7, .tokens = {5}}));
  EXPECT_EQ(code_after(rows(10, 2)), Errc::protocol) << "unrequested rows";
}

TEST_F(ClientRunTest, AcceptsRowGapsOnlyInNewestRowMode) {
  for (const bool newest_row : {false, true}) {
    wire::Welcome welcome = small_welcome();
    welcome.newest_row = newest_row;
    begin_run({.credit = 20, .rows = true}, welcome);
    ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = 13, .next = 7, .tokens = {5}}));
    const wire::Activations newest{.round = 1, .first = 11, .count = 1, .data = packed_rows(11, 1)};
    if (!newest_row) {
      EXPECT_EQ(code_after(newest), Errc::protocol);
      continue;
    }
    EXPECT_EQ(code_after(newest), Errc::cancelled);
    EXPECT_EQ(code_after(newest), Errc::protocol) << "sent twice";
  }
}

TEST_F(ClientRunTest, HintsRaiseCredit) {
  begin_run({.credit = 12});
  ASSERT_TRUE(protocol_.hints(outgoing({.credit = 13, .position = 11})));
  const auto sent = take_messages(protocol_);
  EXPECT_EQ(std::get<wire::Hints>(sent.at(0)).round, 1u);
  EXPECT_EQ(std::get<wire::Hints>(sent.at(0)).credit, 13u);
  EXPECT_TRUE(hear(wire::Verdict{.round = 1, .length = 13, .next = 7, .tokens = {5}}));
}

TEST_F(ClientRunTest, RejectsInvalidVerdictOfRun) {
  const wire::Verdict good{.round = 1, .length = 13, .next = 7, .tokens = {5}};
  const auto code = [&](const wire::Verdict& bad) {
    begin_run({.credit = 14, .rows = true});
    return code_after(bad);
  };
  EXPECT_EQ(code(good), Errc::cancelled);
  wire::Verdict bad = good;
  bad.length = 12;
  EXPECT_EQ(code(bad), Errc::protocol) << "inconsistent length";
  bad = good;
  bad.tokens = {5, 5, 5};
  bad.length = 15;
  EXPECT_EQ(code(bad), Errc::protocol) << "over the credit";
  bad = good;
  bad.accepted_count = 1;
  EXPECT_EQ(code(bad), Errc::protocol) << "unexpected accepted count";
  bad = good;
  bad.activations = packed_rows(10, 2);
  EXPECT_EQ(code(bad), Errc::protocol) << "rows must follow in their own message";
}

TEST_F(ClientRunTest, RefusesInvalidHints) {
  EXPECT_EQ(protocol_.hints(outgoing(hint(10))).error().code, Errc::link_down);
  sign_in();
  EXPECT_TRUE(protocol_.hints(outgoing(hint(10)))) << "hints of an ended run are dropped";
  ASSERT_TRUE(protocol_.prefill(outgoing(prompt_of(10))));
  EXPECT_EQ(protocol_.hints(outgoing(hint(10))).error().code, Errc::protocol)
      << "the prompt has no run";
  begin_run({.credit = 50});
  const wire::Hints many{
      .round = 1, .first = 1, .position = 11, .nodes = std::vector<HintNode>(kHintsMax + 1)};
  EXPECT_EQ(protocol_.hints(outgoing(many)).error().code, Errc::protocol);
}

// A Cancel or the next prompt ends a run; later messages of its round are dropped.
TEST_F(ClientRunTest, CancelOrNewPromptEndsRun) {
  for (const bool cancels : {true, false}) {
    begin_run({.credit = 50});
    ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = 12, .next = 7}));
    if (cancels) protocol_.cancel();
    EXPECT_EQ(protocol_.length(), 12u);
    ASSERT_TRUE(protocol_.prefill(outgoing(wire::Prefill{.base_length = 12})))
        << "continues from the run's tokens";
    while (protocol_.next_event()) {
    }
    ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = 13, .next = 7}));
    EXPECT_FALSE(protocol_.next_event());
    ASSERT_TRUE(hear(wire::Verdict{.round = 2, .length = 13, .next = 7}));
    EXPECT_TRUE(protocol_.next_event());
  }
}

class ClientLockstepTest : public ClientProtocolTest {
 protected:
  // Complete hints of three nodes are sent: 1 and 2 are children of the root, 3 of 1.
  void begin() {
    prompt(kLockstep);
    wire::Hints tree = chain_of(1, 11, 3);
    tree.nodes[1].distance = 0;
    tree.nodes[2].distance = 2;
    ASSERT_TRUE(protocol_.hints(outgoing(tree)));
  }
};

TEST_F(ClientLockstepTest, CompleteHintsStartEachPass) {
  begin();
  const auto sent = std::get<wire::Hints>(take_messages(protocol_).at(0));
  EXPECT_EQ(sent.round, 1u);
  EXPECT_TRUE(sent.complete);
  EXPECT_EQ(sent.nodes, (std::vector<HintNode>{{200, 0}, {201, 0}, {202, 2}}));
  ASSERT_TRUE(hear(accepting(1, 11, 2)));
  const auto event = expect_event<VerdictReceived>();
  EXPECT_EQ(event.to, VerdictReceived::To::run);
  EXPECT_TRUE(event.more);
  EXPECT_EQ(event.rows_first, 10u);
  ASSERT_EQ(event.rows.size(), 3u * small_layout().cols());
  EXPECT_NEAR(event.rows[0], 10.0f, 0.06f);
  EXPECT_EQ(protocol_.length(), 14u);
  EXPECT_TRUE(protocol_.hints(outgoing(chain_of(1, 14, 0)))) << "plain decoding";
}

TEST_F(ClientLockstepTest, ReceivesOneRowInNewestRowMode) {
  wire::Welcome welcome = small_welcome();
  welcome.newest_row = true;
  for (const std::uint32_t rows : {1u, 3u}) {
    begin_run(kLockstep, welcome);
    ASSERT_TRUE(protocol_.hints(outgoing(chain_of(1, 11, 3))));
    wire::Verdict brought = accepting(1, 11, 2);
    brought.activations = packed_rows(13 - rows, rows);
    if (rows > 1) {
      EXPECT_EQ(code_after(brought), Errc::bad_message) << "rows of all positions";
      continue;
    }
    ASSERT_TRUE(hear(brought));
    const auto event = expect_event<VerdictReceived>();
    EXPECT_EQ(event.rows_first, 12u);
    ASSERT_EQ(event.rows.size(), small_layout().cols());
    EXPECT_NEAR(event.rows[0], rows_of(12, 1)[0], 0.06f);
  }
}

TEST_F(ClientLockstepTest, RejectsVerdictThatContradictsHints) {
  const auto code = [&](const wire::Verdict& bad) {
    begin();
    return code_after(bad);
  };
  EXPECT_EQ(code(accepting(1, 11, 2)), Errc::cancelled);
  EXPECT_EQ(code(accepting(1, 11, 0)), Errc::cancelled);
  EXPECT_EQ(code(accepting(1, 11, 4)), Errc::protocol) << "more tokens than nodes";
  EXPECT_EQ(code(accepting(2, 11, 1)), Errc::protocol) << "skipped round";
  EXPECT_EQ(code(accepting(1, 12, 1)), Errc::protocol) << "inconsistent length";
  wire::Verdict bad = accepting(1, 11, 1);
  bad.activations.pop_back();
  EXPECT_EQ(code(bad), Errc::bad_message) << "truncated rows";
  bad.activations.clear();
  EXPECT_EQ(code(bad), Errc::bad_message) << "no rows";
  begin();
  ASSERT_TRUE(hear(accepting(1, 11, 1)));
  EXPECT_EQ(code_after(accepting(1, 13, 0)), Errc::protocol) << "verdict before the next hints";
}

TEST_F(ClientLockstepTest, RefusesUnexpectedCompleteHints) {
  begin();
  EXPECT_EQ(protocol_.hints(outgoing(chain_of(1, 11, 1))).error().code, Errc::protocol)
      << "sent twice";
  ASSERT_TRUE(hear(accepting(1, 11, 0)));
  EXPECT_EQ(protocol_.hints(outgoing(chain_of(1, 11, 1))).error().code, Errc::protocol)
      << "wrong length";
  EXPECT_EQ(protocol_.hints(outgoing(chain_of(1, 12, 9))).error().code, Errc::protocol)
      << "more nodes than the server verifies";
  EXPECT_TRUE(protocol_.hints(outgoing(chain_of(1, 12, 8))));
  prompt({.credit = 60});
  EXPECT_EQ(protocol_.hints(outgoing(chain_of(1, 11, 1))).error().code, Errc::protocol)
      << "not under lockstep";
}

}  // namespace
}  // namespace edgedraft
