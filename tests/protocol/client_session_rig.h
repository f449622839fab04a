#pragma once

#include "shared/protocol/client_session.h"
#include "tests/protocol/session_support.h"

namespace edgedraft {

class ClientSessionTest : public ::testing::Test {
 protected:
  Result<void> hear(const wire::Message& message) {
    return session_.receive(now_, wire::encode(outgoing(message)));
  }

  Errc code_after(const wire::Message& message) {
    const Result<void> heard = hear(message);
    return heard ? Errc::cancelled : heard.error().code;
  }

  template <class Event>
  Event expect_event() {
    auto event = session_.next_event();
    if (!event || !std::holds_alternative<Event>(*event)) {
      ADD_FAILURE() << "another event, or none";
      return {};
    }
    return std::get<Event>(*std::move(event));
  }

  void sign_in(const wire::Welcome& welcome = small_welcome()) {
    ASSERT_TRUE(hear(welcome));
    expect_event<Welcomed>();
    take_messages(session_);
  }

  // A prompt of `count` tokens, answered, its activations here.
  void prompt(std::uint32_t count) {
    sign_in();
    ASSERT_TRUE(session_.prefill(outgoing(prompt_of(count))));
    ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = count + 1, .next = 7}));
    ASSERT_TRUE(hear(chunk_of(1, 0, count)));
    expect_event<VerdictReceived>();
    EXPECT_TRUE(expect_event<ActivationsReceived>().complete);
    take_messages(session_);
  }

  wire::Verdict verdict(std::uint32_t round, std::uint32_t base_length,
                        std::vector<std::uint8_t> path) {
    const auto count = static_cast<std::uint32_t>(path.size() + 1);
    return {.round = round,
            .length = base_length + count,
            .next = 7,
            .path = std::move(path),
            .activations = packed_rows(base_length - 1, count)};
  }

  Instant now_ = kStart;
  ClientSession session_{{.hello = {.agent = "test"}, .channel = {}}, kStart};
};

}  // namespace edgedraft
