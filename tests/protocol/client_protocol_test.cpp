#include "shared/protocol/client_protocol.h"

#include <gtest/gtest.h>

#include "tests/protocol/client_protocol_rig.h"
#include "tests/support/expect.h"

namespace edgedraft {
namespace {

// The tokenizer has no text for such a token.
TEST_F(ClientProtocolTest, RejectsTokensBeyondVocabulary) {
  const auto heard = [&](std::uint32_t next, std::vector<std::uint32_t> tokens) {
    protocol_ = ClientProtocol({.hello = {}, .channel = {}, .vocabulary_count = 1000}, kStart);
    EXPECT_TRUE(hear(small_welcome()));
    wire::Prefill request = prompt_of(10);
    request.run.credit = 60;
    EXPECT_TRUE(protocol_.prefill(outgoing(request)));
    if (tokens.empty()) return code_after(wire::Verdict{.round = 1, .length = 11, .next = next});
    EXPECT_TRUE(hear(wire::Verdict{.round = 1, .length = 11, .next = 7}));
    const auto length = static_cast<std::uint32_t>(11 + tokens.size() + 1);
    return code_after(
        wire::Verdict{.round = 1, .length = length, .next = next, .tokens = std::move(tokens)});
  };
  EXPECT_EQ(heard(999, {}), Errc::cancelled);
  EXPECT_EQ(heard(999, {3, 999}), Errc::cancelled);
  EXPECT_EQ(heard(1000, {}), Errc::protocol);
  EXPECT_EQ(heard(5, {3, 1000}), Errc::protocol);
}

TEST_F(ClientProtocolTest, SendsHelloFirst) {
  const auto messages = take_messages(protocol_);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(std::get<wire::Hello>(messages[0]).agent, "test");
}

TEST_F(ClientProtocolTest, RefusesRequestsBeforeWelcome) {
  EXPECT_EQ(protocol_.prefill(outgoing(prompt_of(3))).error().code, Errc::link_down);
  EXPECT_EQ(protocol_.hints(outgoing(chain_of(1, 1, 1))).error().code, Errc::link_down);
}

TEST_F(ClientProtocolTest, EndsWithServersReasonOnFatalError) {
  const auto heard = hear(wire::ErrorReport{.code = Errc::unauthorized, .message = "who are you"});
  ASSERT_TRUE(fails_with(heard, Errc::unauthorized));
  EXPECT_EQ(heard.error().message, "who are you");
  EXPECT_EQ(take_messages(protocol_).size(), 1u) << "only the hello, no error in return";
}

TEST_F(ClientProtocolTest, RejectsOtherMessagesBeforeWelcome) {
  EXPECT_EQ(code_after(wire::Verdict{.round = 1, .length = 1}), Errc::protocol);
}

TEST_F(ClientProtocolTest, RejectsSecondWelcome) {
  sign_in();
  EXPECT_EQ(code_after(small_welcome()), Errc::protocol);
}

TEST_F(ClientProtocolTest, RejectsUnsupportedVersion) {
  wire::Welcome welcome = small_welcome();
  welcome.version = kProtocolVersion + 1;
  EXPECT_EQ(code_after(welcome), Errc::version);
}

TEST_F(ClientProtocolTest, RejectsOversizeWelcomeByHeader) {
  Bytes header(kFrameHeaderBytes);
  encode_frame_header({.kind = 2, .payload_bytes = kHandshakePayloadBytesMax + 1},
                      std::span(header).first<kFrameHeaderBytes>());
  EXPECT_EQ(protocol_.receive(now_, header).error().code, Errc::frame_too_large);
}

TEST_F(ClientProtocolTest, ReceivesPromptActivationsNewestFirst) {
  sign_in();
  ASSERT_TRUE(protocol_.prefill(outgoing(prompt_of(10))));
  EXPECT_TRUE(protocol_.in_flight());
  ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = 11, .next = 7}));
  EXPECT_EQ(expect_event<VerdictReceived>().verdict.next, 7u);
  EXPECT_EQ(protocol_.length(), 11u);

  ASSERT_TRUE(hear(chunk_of(1, 6, 4)));
  ASSERT_TRUE(hear(chunk_of(1, 0, 6)));
  const auto newest = expect_event<ActivationsReceived>();
  EXPECT_EQ(newest.first, 6u);
  EXPECT_EQ(newest.count, 4u);
  EXPECT_FALSE(newest.complete);
  for (std::size_t i = 0; i < newest.rows.size(); ++i) {
    EXPECT_NEAR(newest.rows[i], rows_of(6, 4)[i], 0.06f);
  }
  EXPECT_TRUE(expect_event<ActivationsReceived>().complete);
  EXPECT_EQ(protocol_.traffic().activation_bytes_raw, 10u * small_layout().row_bytes());
}

TEST_F(ClientProtocolTest, RejectsOversizeActivationChunk) {
  wire::Welcome welcome = small_welcome();
  welcome.context_count = 1000;
  sign_in(welcome);
  ASSERT_TRUE(protocol_.prefill(outgoing(prompt_of(600))));
  ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = 601, .next = 7}));
  ASSERT_TRUE(hear(chunk_of(1, 344, 256)));
  EXPECT_EQ(code_after(chunk_of(1, 87, 257)), Errc::protocol);
}

TEST_F(ClientProtocolTest, RejectsActivationsOutOfOrder) {
  const std::vector<wire::Activations> bad = {
      chunk_of(1, 0, 6),   // not the newest
      chunk_of(1, 6, 5),   // beyond the prompt
      chunk_of(1, 7, 2),   // a hole at the end
      chunk_of(2, 6, 4),   // wrong round
      chunk_of(1, 11, 1),  // the root has none
  };
  for (const wire::Activations& chunk : bad) {
    begin_run({});
    EXPECT_EQ(code_after(chunk), Errc::protocol) << chunk.first << " " << chunk.count;
  }
}

TEST_F(ClientProtocolTest, RejectsActivationsBelowRequestedRange) {
  prompt();
  wire::Prefill next = prompt_of(5, 0, 11);
  next.activations_from = 10;
  ASSERT_TRUE(protocol_.prefill(outgoing(next)));
  ASSERT_TRUE(hear(wire::Verdict{.round = 2, .length = 17, .next = 7}));
  EXPECT_EQ(code_after(chunk_of(2, 9, 7)), Errc::protocol);
}

TEST_F(ClientProtocolTest, RejectsNewestRowModeWithoutRequest) {
  wire::Welcome welcome = small_welcome();
  welcome.newest_row = true;
  EXPECT_EQ(code_after(welcome), Errc::protocol);
}

TEST_F(ClientProtocolTest, RefusesPromptBeyondContext) {
  sign_in();
  EXPECT_EQ(protocol_.prefill(outgoing(prompt_of(100))).error().code, Errc::context_full);
  EXPECT_TRUE(protocol_.prefill(outgoing(prompt_of(99))));
}

TEST_F(ClientProtocolTest, RejectsUnexpectedVerdict) {
  prompt();
  EXPECT_EQ(code_after(accepting(2, 11, 0)), Errc::protocol);
}

TEST_F(ClientProtocolTest, ReportsServerFaultToServer) {
  prompt();
  EXPECT_FALSE(hear(accepting(2, 11, 0)));
  const auto sent = take_messages(protocol_);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(std::get<wire::ErrorReport>(sent[0]).fatal);
}

TEST_F(ClientProtocolTest, BoundsAcceptedCountOfPrompt) {
  const auto code = [&](wire::ResyncPolicy policy, std::uint32_t accepted_count) {
    sign_in();
    wire::Prefill prefill = prompt_of(10);
    prefill.provisional_count = 4;
    prefill.policy = policy;
    EXPECT_TRUE(protocol_.prefill(outgoing(prefill)));
    return code_after(wire::Verdict{
        .round = 1, .length = 7 + accepted_count, .next = 7, .accepted_count = accepted_count});
  };
  EXPECT_EQ(code(wire::ResyncPolicy::check, 0), Errc::cancelled);
  EXPECT_EQ(code(wire::ResyncPolicy::check, 4), Errc::cancelled);
  EXPECT_EQ(code(wire::ResyncPolicy::check, 5), Errc::protocol);
  EXPECT_EQ(code(wire::ResyncPolicy::keep, 4), Errc::cancelled);
  EXPECT_EQ(code(wire::ResyncPolicy::keep, 3), Errc::protocol);
}

TEST_F(ClientProtocolTest, RefusedRequestKeepsConnection) {
  prompt();
  const wire::Prefill next = prompt_of(1, 0, 11);
  ASSERT_TRUE(protocol_.prefill(outgoing(next)));
  ASSERT_TRUE(hear(wire::ErrorReport{
      .round = 2, .code = Errc::protocol, .fatal = false, .message = "no such token"}));
  EXPECT_EQ(expect_event<RequestRefused>().error.message, "no such token");
  EXPECT_FALSE(protocol_.in_flight());
  EXPECT_EQ(protocol_.length(), 11u);
  EXPECT_TRUE(protocol_.prefill(outgoing(next)));
}

TEST_F(ClientProtocolTest, RefillsForgottenSession) {
  sign_in();
  wire::Resume resume{.verified_length = 20, .tokens = {1, 2}, .activations_from = 15};
  ASSERT_TRUE(protocol_.resume(outgoing(resume)));
  ASSERT_TRUE(hear(wire::ErrorReport{.round = 1, .code = Errc::session_unknown, .fatal = false}));
  EXPECT_EQ(expect_event<RequestRefused>().error.code, Errc::session_unknown);
  EXPECT_EQ(protocol_.length(), 0u);
  EXPECT_TRUE(protocol_.prefill(outgoing(prompt_of(22))));
}

TEST_F(ClientProtocolTest, ResumedSessionKeepsOldId) {
  sign_in();
  wire::Resume resume{.verified_length = 20, .tokens = {1, 2}, .activations_from = 15};
  resume.session.fill(std::byte{9});
  ASSERT_TRUE(protocol_.resume(outgoing(resume)));
  ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = 22, .next = 7, .accepted_count = 1}));
  EXPECT_EQ(protocol_.session_id(), resume.session);
  ASSERT_TRUE(hear(chunk_of(1, 15, 6)));
  EXPECT_EQ(expect_event<VerdictReceived>().to, VerdictReceived::To::resume);
  EXPECT_TRUE(expect_event<ActivationsReceived>().complete);
}

// It will not draft, however many of its offline tokens are accepted.
TEST_F(ClientProtocolTest, ResumeMayRequestNoActivations) {
  sign_in();
  wire::Resume resume{.verified_length = 20, .tokens = {1, 2}, .activations_from = 23};
  EXPECT_FALSE(protocol_.resume(outgoing(resume))) << "beyond its tokens";
  resume.activations_from = 22;
  ASSERT_TRUE(protocol_.resume(outgoing(resume)));
  ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = 22, .next = 7, .accepted_count = 1}));
  EXPECT_EQ(code_after(chunk_of(1, 20, 1)), Errc::protocol) << "no activations were requested";
}

// The caller has no slots for log probabilities of tokens before the answer.
TEST_F(ClientProtocolTest, RejectsLogProbabilitiesOfKeptTokens) {
  for (const std::uint32_t told : {1u, 2u}) {
    sign_in();
    wire::Resume resume{.verified_length = 20,
                        .tokens = {1, 2},
                        .policy = wire::ResyncPolicy::keep,
                        .activations_from = 20};
    resume.run.logprobs = 1;
    ASSERT_TRUE(protocol_.resume(outgoing(resume)));
    wire::Verdict verdict{.round = 1, .length = 23, .next = 7, .accepted_count = 2};
    verdict.logprobs.assign(told, {.token = 7, .value = -0.5f});
    EXPECT_EQ(hear(verdict).has_value(), told == 1) << told;
  }
}

TEST_F(ClientProtocolTest, IgnoresLateAnswersAfterCancel) {
  prompt(kLockstep);
  ASSERT_TRUE(protocol_.hints(outgoing(chain_of(1, 11, 3))));
  protocol_.cancel();
  EXPECT_FALSE(protocol_.in_flight());
  EXPECT_TRUE(hear(accepting(1, 11, 1)));
  EXPECT_FALSE(protocol_.next_event());
  take_messages(protocol_);
  EXPECT_TRUE(protocol_.hints(outgoing(chain_of(1, 11, 1))));
  EXPECT_FALSE(protocol_.has_output()) << "hints of an ended run are dropped";

  ASSERT_TRUE(protocol_.prefill(outgoing(prompt_of(4, 0, 11))));
  EXPECT_TRUE(hear(chunk_of(1, 0, 3))) << "chunk of an earlier prompt";
  ASSERT_TRUE(hear(wire::Verdict{.round = 2, .length = 16, .next = 7}));
  expect_event<VerdictReceived>();
}

// The connection itself is unpadded.
TEST_F(ClientProtocolTest, DropsAndCountsPadFrames) {
  const auto pad_frame = [](std::uint32_t payload_bytes) {
    Bytes frame(kFrameHeaderBytes + payload_bytes);
    encode_frame_header(
        {.kind = static_cast<std::uint16_t>(wire::Kind::pad), .payload_bytes = payload_bytes},
        std::span(frame).first<kFrameHeaderBytes>());
    return frame;
  };
  EXPECT_EQ(protocol_.receive(now_, pad_frame(8)).error().code, Errc::protocol)
      << "pad frame before sign-in";
  sign_in();
  ASSERT_TRUE(protocol_.receive(now_, pad_frame(2000)));
  EXPECT_FALSE(protocol_.next_event());
  EXPECT_EQ(protocol_.traffic().pad_bytes_in, 2000 + kFrameHeaderBytes);
}

TEST_F(ClientProtocolTest, AnswersPing) {
  sign_in();
  ASSERT_TRUE(hear(wire::Ping{77}));
  EXPECT_EQ(std::get<wire::Pong>(take_messages(protocol_).at(0)).nonce, 77u);
}

TEST_F(ClientProtocolTest, ReportsReadingOfUnansweredRequest) {
  sign_in();
  ASSERT_TRUE(protocol_.prefill(outgoing(prompt_of(10))));
  ASSERT_TRUE(hear(wire::Ping{.reading = 1}));
  expect_event<RequestRead>();
  ASSERT_TRUE(hear(wire::Ping{.reading = 2}));
  EXPECT_FALSE(protocol_.next_event()) << "another round";
  ASSERT_TRUE(hear(wire::Verdict{.round = 1, .length = 11, .next = 7}));
  expect_event<VerdictReceived>();
  ASSERT_TRUE(hear(wire::Ping{.reading = 1}));
  EXPECT_FALSE(protocol_.next_event()) << "it is answered";
}

TEST_F(ClientProtocolTest, RejectsPingBeforeSignIn) {
  EXPECT_EQ(code_after(wire::Ping{1}), Errc::protocol);
}

TEST_F(ClientProtocolTest, GivesUpAfterThreeUnansweredPings) {
  sign_in();
  for (int i = 0; i < 3; ++i) {
    now_ = protocol_.next_deadline();
    ASSERT_TRUE(protocol_.tick(now_));
    EXPECT_TRUE(std::holds_alternative<wire::Ping>(take_messages(protocol_).at(0)));
  }
  now_ = protocol_.next_deadline();
  EXPECT_EQ(protocol_.tick(now_).error().code, Errc::timed_out);
  EXPECT_EQ(now_, kStart + 20s);
}

// The server has not received the Ping yet: a large message is still being sent before it.
TEST_F(ClientProtocolTest, DoesNotCountUnsentPings) {
  sign_in();
  for (int i = 0; i < 10; ++i) {
    now_ = protocol_.next_deadline();
    ASSERT_TRUE(protocol_.tick(now_)) << i;
  }
  EXPECT_EQ(take_messages(protocol_).size(), 1u);
  for (int i = 0; i < 2; ++i) {
    now_ = protocol_.next_deadline();
    ASSERT_TRUE(protocol_.tick(now_)) << i;
    EXPECT_EQ(take_messages(protocol_).size(), 1u);
  }
  now_ = protocol_.next_deadline();
  EXPECT_EQ(protocol_.tick(now_).error().code, Errc::timed_out);
}

TEST_F(ClientProtocolTest, AnyMessageResetsPings) {
  sign_in();
  for (int i = 0; i < 10; ++i) {
    now_ = protocol_.next_deadline();
    ASSERT_TRUE(protocol_.tick(now_)) << i;
    ASSERT_TRUE(hear(wire::Pong{0}));
  }
}

TEST_F(ClientProtocolTest, HandshakeTimesOut) {
  EXPECT_EQ(protocol_.next_deadline(), kStart + 10s);
  EXPECT_TRUE(protocol_.tick(kStart + 10s - 1ms));
  EXPECT_EQ(protocol_.tick(kStart + 10s).error().code, Errc::timed_out);
}

// A slow writer keeps the connection alive byte by byte but never finishes a frame.
TEST_F(ClientProtocolTest, FrameThatNeverEndsTimesOut) {
  sign_in();
  const Bytes frame = wire::encode(wire::Close{std::string(100, 'x')});
  Result<void> ticked = boost::system::in_place_value;
  for (std::size_t i = 0; i < frame.size() && ticked; ++i) {
    ASSERT_TRUE(protocol_.receive(now_, ByteView(frame).subspan(i, 1))) << i;
    now_ += 1s;
    ticked = protocol_.tick(now_);
  }
  EXPECT_TRUE(fails_with(ticked, Errc::timed_out));
  EXPECT_EQ(now_, kStart + 30s);
}

TEST_F(ClientProtocolTest, CloseEndsLink) {
  sign_in();
  EXPECT_EQ(code_after(wire::Close{"going away"}), Errc::link_down);
}

}  // namespace
}  // namespace edgedraft
