#pragma once

#include "tests/protocol/session_support.h"

namespace edgedraft {

class ClientProtocolTest : public ProtocolTest<ClientProtocol> {
 protected:
  ClientProtocolTest()
      : ProtocolTest(ClientProtocol({.hello = {.agent = "test"}, .channel = {}}, kStart)) {}

  void sign_in(const wire::Welcome& welcome = small_welcome()) {
    ASSERT_TRUE(hear(welcome));
    expect_event<Welcomed>();
    take_messages(protocol_);
  }

  // Prefills `count` tokens, then receives the answer and its activations.
  void prompt(std::uint32_t count, const wire::RunTerms& run = {}) {
    sign_in();
    wire::Prefill request = prompt_of(count);
    request.run = run;
    ASSERT_TRUE(protocol_.prefill(outgoing(request)));
    ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = count + 1, .next = 7}));
    ASSERT_TRUE(hear(chunk_of(1, 0, count)));
    expect_event<VerdictReceived>();
    EXPECT_TRUE(expect_event<ActivationsReceived>().complete);
    take_messages(protocol_);
  }
};

}  // namespace edgedraft
