#pragma once

#include "tests/protocol/session_support.h"

namespace edgedraft {

class ClientProtocolTest : public ProtocolTest<ClientProtocol> {
 protected:
  ClientProtocolTest()
      : ProtocolTest(ClientProtocol({.hello = {.agent = "test"}, .channel = {}}, kStart)) {}

  // Starts another session.
  void sign_in(const wire::Welcome& welcome = small_welcome()) {
    protocol_ = ClientProtocol(
        {.hello = {.agent = "test", .newest_row = welcome.newest_row}, .channel = {}}, now_);
    ASSERT_TRUE(hear(welcome));
    expect_event<Welcomed>();
    take_messages(protocol_);
  }

  // Prefills ten tokens, receives the answer and starts a run.
  void begin_run(const wire::RunTerms& run, const wire::Welcome& welcome = small_welcome()) {
    sign_in(welcome);
    wire::Prefill request = prompt_of(10);
    request.run = run;
    ASSERT_TRUE(protocol_.prefill(outgoing(request)));
    ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = 11, .next = 7}));
    expect_event<VerdictReceived>();
    take_messages(protocol_);
  }

  // begin_run(), then receives the prompt's activations.
  void prompt(const wire::RunTerms& run = {}) {
    begin_run(run);
    ASSERT_TRUE(hear(chunk_of(1, 0, 10)));
    EXPECT_TRUE(expect_event<ActivationsReceived>().complete);
  }
};

}  // namespace edgedraft
