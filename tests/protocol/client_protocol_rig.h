#pragma once

#include "shared/protocol/client_protocol.h"
#include "tests/protocol/session_support.h"

namespace edgedraft {

class ClientProtocolTest : public ::testing::Test {
 protected:
  Result<void> hear(const wire::Message& message) {
    return protocol_.receive(now_, wire::encode(outgoing(message)));
  }

  Errc code_after(const wire::Message& message) {
    const Result<void> heard = hear(message);
    return heard ? Errc::cancelled : heard.error().code;
  }

  template <class Event>
  Event expect_event() {
    auto event = protocol_.next_event();
    if (!event || !std::holds_alternative<Event>(*event)) {
      ADD_FAILURE() << "unexpected event, or none";
      return {};
    }
    return std::get<Event>(*std::move(event));
  }

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

  Instant now_ = kStart;
  ClientProtocol protocol_{{.hello = {.agent = "test"}, .channel = {}}, kStart};
};

}  // namespace edgedraft
