// Runs and hints on the server's side of a connection.
#include <gtest/gtest.h>

#include "tests/protocol/server_protocol_rig.h"

namespace edgedraft {
namespace {

class ServerRunTest : public ServerProtocolTest {
 protected:
  static wire::Hints hint(std::uint32_t round, std::uint32_t position) {
    return {.round = round, .first = 1, .position = position, .nodes = {{.token = 5, .score = 2}}};
  }

  // The maximum number of nodes per message.
  static wire::Hints many_hints(std::uint32_t round, std::uint32_t position) {
    wire::Hints many = hint(round, position);
    many.nodes.assign(kHintsMax, {.token = 5});
    return many;
  }

  wire::Hints next_hints() {
    const auto event = protocol_.next_event();
    if (!event || !std::holds_alternative<HintsReceived>(*event)) {
      ADD_FAILURE() << "expected hints";
      return {};
    }
    return std::get<HintsReceived>(*event).hints;
  }
};

TEST_F(ServerRunTest, ContinuesUpToItsCredit) {
  begin_run({.credit = 15, .rows = true});
  ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 7, .tokens = {5, 6}}));
  EXPECT_EQ(protocol_.length(), 14u);
  ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 8}));
  EXPECT_TRUE(protocol_.busy()) << "paused: more credit may arrive";
  EXPECT_TRUE(protocol_.paused());
  ASSERT_TRUE(hear(wire::Hints{.round = 1, .credit = 16, .position = 15}));
  EXPECT_FALSE(protocol_.paused());
  EXPECT_EQ(next_hints().credit, 16u);
  ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 9, .ending = wire::Ending::end_token}));
  EXPECT_FALSE(protocol_.busy());
  const auto messages = take_messages(protocol_);
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(std::get<wire::Verdict>(messages[0]).length, 14u);
  EXPECT_EQ(std::get<wire::Verdict>(messages[2]).length, 16u);
}

TEST_F(ServerRunTest, SendsRowsAfterTheirVerdicts) {
  begin_run({.credit = 20, .rows = true});
  const auto rows = [](std::uint32_t first, std::uint32_t count) {
    return wire::Activations{
        .round = 1, .first = first, .count = count, .data = packed_rows(first, count)};
  };
  ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 7, .tokens = {5, 6}}));
  EXPECT_TRUE(protocol_.activations(rows(10, 3)));
  ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 8, .ending = wire::Ending::end_token}));
  EXPECT_TRUE(protocol_.activations(rows(13, 1))) << "rows after the answer's end";
  const auto messages = take_messages(protocol_);
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(std::get<wire::Activations>(messages[1]).first, 10u);
  EXPECT_EQ(std::get<wire::Activations>(messages[3]).first, 13u);
  ASSERT_TRUE(hear(wire::Cancel{1}));
  EXPECT_FALSE(protocol_.activations(rows(14, 1)));
}

TEST_F(ServerRunTest, CreditNeverShrinks) {
  begin_run({.credit = 15});
  ASSERT_TRUE(hear(wire::Hints{.round = 1, .credit = 3, .position = 11}));
  EXPECT_TRUE(protocol_.verdict({.round = 1, .next = 7, .tokens = {5, 6, 7}}));
}

TEST_F(ServerRunTest, AcceptsHintsAtAnyTimeOfRun) {
  sign_in();
  wire::Prefill prefill = prompt_of(10, 1);
  prefill.run.credit = 50;
  ASSERT_TRUE(hear(prefill));
  expect_event<PrefillRequested>();
  ASSERT_TRUE(hear(hint(1, 10))) << "hints before the first verdict";
  EXPECT_EQ(next_hints().first, 1u);
  ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 7}));
  ASSERT_TRUE(hear(hint(1, 11)));
  EXPECT_EQ(next_hints().position, 11u);
  ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 7, .ending = wire::Ending::end_token}));
  EXPECT_TRUE(hear(hint(1, 11))) << "the hints crossed the answer's end";
  EXPECT_FALSE(protocol_.next_event());
}

// Hints over the rate limit are dropped until time has passed, so a flood costs only its sender.
TEST_F(ServerRunTest, DropsHintsOverRateLimit) {
  begin_run({.credit = 50});
  wire::Hints many = many_hints(1, 11);
  const auto nodes_taken = [&] {
    std::size_t nodes = 0;
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(hear(many));
      many.first += kHintsMax;
    }
    while (const auto event = protocol_.next_event()) {
      nodes += std::get<HintsReceived>(*event).hints.nodes.size();
    }
    return nodes;
  };
  EXPECT_EQ(nodes_taken(), 3 * kHintsMax);
  EXPECT_EQ(nodes_taken(), 0u);
  many.credit = 60;
  EXPECT_EQ(nodes_taken(), 0u);
  EXPECT_TRUE(
      protocol_.verdict({.round = 1, .next = 7, .tokens = std::vector<std::uint32_t>(45, 5)}))
      << "credit applies although hints are dropped";
  now_ += 1s;
  EXPECT_EQ(nodes_taken(), 3 * kHintsMax);
}

// A message's nodes may exceed the limit; its other fields still apply.
TEST_F(ServerRunTest, HoldAppliesDuringFlood) {
  begin_run({.credit = 50});
  wire::Hints many = many_hints(1, 11);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(hear(many));
    many.first += kHintsMax;
  }
  while (protocol_.next_event()) {
  }
  for (const wire::Hold hold : {wire::Hold::economy, wire::Hold::none, wire::Hold::economy}) {
    many.hold = hold;
    ASSERT_TRUE(hear(many));
    const wire::Hints heard = next_hints();
    EXPECT_EQ(heard.hold, hold);
    EXPECT_TRUE(heard.nodes.empty());
    ASSERT_TRUE(hear(many));
    EXPECT_FALSE(protocol_.next_event()) << "nothing has changed";
  }
}

TEST_F(ServerRunTest, IgnoresHintsOfReplacedRun) {
  begin_run({.credit = 50});
  wire::Prefill next{.round = 2, .base_length = 11};
  next.run.credit = 50;
  ASSERT_TRUE(hear(next));
  expect_event<RoundCancelled>();
  expect_event<PrefillRequested>();
  ASSERT_TRUE(hear(hint(1, 11)));
  EXPECT_FALSE(protocol_.next_event());
  EXPECT_FALSE(protocol_.verdict({.round = 1, .next = 7})) << "the run has ended";
}

TEST_F(ServerRunTest, RejectsHintsWithoutRun) {
  prompt();
  EXPECT_EQ(code_after(hint(2, 11)), Errc::protocol) << "hints of a future round";
  sign_in();
  ASSERT_TRUE(hear(prompt_of(10, 1)));
  EXPECT_EQ(code_after(hint(1, 10)), Errc::protocol) << "hints of a prompt without credit";
}

TEST_F(ServerRunTest, CancelledRunKeepsItsTokens) {
  begin_run({.credit = 50});
  ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 7}));
  ASSERT_TRUE(hear(wire::Cancel{1}));
  expect_event<RoundCancelled>();
  EXPECT_EQ(protocol_.length(), 12u);
  EXPECT_FALSE(protocol_.verdict({.round = 1, .next = 7}));
}

TEST_F(ServerRunTest, RefusalMidRunKeepsSession) {
  sign_in();
  wire::Resume resume{.round = 1, .verified_length = 20, .tokens = {1}};
  resume.run.credit = 50;
  ASSERT_TRUE(hear(resume));
  ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 7, .accepted_count = 1}));
  ASSERT_TRUE(protocol_.refuse(1, {Errc::refused, "no memory"}));
  EXPECT_EQ(protocol_.length(), 22u);
}

TEST_F(ServerRunTest, LockstepRunWaitsForCompleteHints) {
  begin_run(kLockstep);
  EXPECT_TRUE(protocol_.paused());
  ASSERT_TRUE(hear(chain_of(1, 11, 3)));
  EXPECT_FALSE(protocol_.paused());
  EXPECT_EQ(next_hints().nodes.size(), 3u);
  ASSERT_TRUE(protocol_.verdict(accepting(1, 11, 2)));
  EXPECT_EQ(std::get<wire::Verdict>(take_messages(protocol_).at(0)).length, 14u);
  EXPECT_TRUE(protocol_.paused());
  EXPECT_TRUE(hear(chain_of(1, 14, 0))) << "plain decoding";
}

TEST_F(ServerRunTest, RejectsUnexpectedCompleteHints) {
  const auto code = [&](const wire::RunTerms& run, const wire::Hints& hints) {
    begin_run(run);
    return code_after(hints);
  };
  EXPECT_EQ(code(kLockstep, chain_of(1, 11, 8)), Errc::cancelled);
  EXPECT_EQ(code(kLockstep, chain_of(1, 11, 9)), Errc::protocol) << "more nodes than a pass takes";
  EXPECT_EQ(code(kLockstep, chain_of(1, 10, 1)), Errc::protocol) << "wrong length";
  EXPECT_EQ(code(kLockstep, chain_of(1, 12, 1)), Errc::protocol) << "wrong length";
  EXPECT_EQ(code({.credit = 60}, chain_of(1, 11, 1)), Errc::protocol) << "not under lockstep";
  begin_run(kLockstep);
  ASSERT_TRUE(hear(chain_of(1, 11, 1)));
  EXPECT_EQ(code_after(chain_of(1, 11, 1)), Errc::protocol) << "sent twice";
}

TEST_F(ServerRunTest, HintsCannotSwitchRunToLockstep) {
  for (const wire::Hold hold : {wire::Hold::none, wire::Hold::economy}) {
    begin_run({.credit = 60, .hold = hold});
    wire::Hints hints = hint(1, 11);
    hints.hold = wire::Hold::lockstep;
    EXPECT_EQ(code_after(hints), Errc::protocol);
  }
}

TEST_F(ServerRunTest, VerdictLongerThanCompleteHintsEndsConnection) {
  begin_run({.credit = 60, .hold = wire::Hold::lockstep});
  ASSERT_TRUE(hear(chain_of(1, 11, 2)));
  EXPECT_FALSE(protocol_.verdict({.round = 1, .next = 7, .tokens = {5, 6, 7}}));
  EXPECT_TRUE(protocol_.finished());
}

// They are bounded by the verdict that each one answers.
TEST_F(ServerRunTest, AcceptsCompleteHintsOverRateLimit) {
  wire::Welcome welcome = small_welcome();
  welcome.context_count = 1u << 16;
  begin_run({.credit = 1u << 15, .hold = wire::Hold::lockstep}, welcome);
  for (std::uint32_t length = 11; length < 2000; ++length) {
    ASSERT_TRUE(hear(chain_of(1, length, 8)));
    ASSERT_EQ(next_hints().nodes.size(), 8u);
    ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 7}));
    take_messages(protocol_);
  }
}

}  // namespace
}  // namespace edgedraft
