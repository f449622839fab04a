#pragma once

#include "tests/protocol/session_support.h"

namespace edgedraft {

class ServerProtocolTest : public ProtocolTest<ServerProtocol> {
 protected:
  ServerProtocolTest() : ProtocolTest(ServerProtocol({}, kStart)) {}

  // Starts another session.
  void sign_in(const wire::Welcome& welcome = small_welcome()) {
    protocol_ = ServerProtocol({}, now_);
    ASSERT_TRUE(hear(wire::Hello()));
    expect_event<HelloReceived>();
    protocol_.accept(welcome);
    take_messages(protocol_);
  }

  // Answers a prompt of ten tokens: the session has 11 tokens and its run continues.
  void begin_run(const wire::RunTerms& run, const wire::Welcome& welcome = small_welcome()) {
    sign_in(welcome);
    wire::Prefill prefill = prompt_of(10, 1);
    prefill.run = run;
    ASSERT_TRUE(hear(prefill));
    expect_event<PrefillRequested>();
    ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 7}));
    ASSERT_EQ(protocol_.length(), 11u);
    take_messages(protocol_);
  }

  // begin_run() without a run.
  void prompt(const wire::Welcome& welcome = small_welcome()) { begin_run({}, welcome); }

  // The session has ended and its last message carries `code`.
  void expect_farewell(Errc code) {
    EXPECT_TRUE(protocol_.finished());
    const auto messages = take_messages(protocol_);
    ASSERT_FALSE(messages.empty());
    const auto* report = std::get_if<wire::ErrorReport>(&messages.back());
    ASSERT_NE(report, nullptr);
    EXPECT_TRUE(report->fatal);
    EXPECT_EQ(report->code, code);
  }
};

}  // namespace edgedraft
