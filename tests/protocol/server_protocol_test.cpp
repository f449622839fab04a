#include "shared/protocol/server_protocol.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/protocol/server_protocol_rig.h"

namespace edgedraft {
namespace {

TEST_F(ServerProtocolTest, RejectsMessagesBeforeHello) {
  EXPECT_EQ(code_after(prompt_of(1, 1)), Errc::protocol);
  expect_farewell(Errc::protocol);
}

TEST_F(ServerProtocolTest, RejectsLargeFrameBeforeSignIn) {
  Bytes header(kFrameHeaderBytes);
  encode_frame_header({.kind = 1, .payload_bytes = kHandshakePayloadBytesMax + 1},
                      std::span(header).first<kFrameHeaderBytes>());
  EXPECT_EQ(protocol_.receive(now_, header).error().code, Errc::frame_too_large);
  expect_farewell(Errc::frame_too_large);
}

TEST_F(ServerProtocolTest, ReportsMissingCommonVersion) {
  wire::Hello hello;
  hello.version_min = kProtocolVersion + 1;
  hello.version_max = kProtocolVersion + 3;
  EXPECT_EQ(code_after(hello), Errc::version);
  expect_farewell(Errc::version);
  protocol_ = ServerProtocol({}, kStart);
  hello.version_min = 1;
  hello.version_max = kProtocolVersionMin - 1;
  EXPECT_EQ(code_after(hello), Errc::version);
}

TEST_F(ServerProtocolTest, PicksNewestCommonVersion) {
  for (const auto& [max, taken] :
       {std::pair<std::uint16_t, std::uint16_t>{kProtocolVersion, kProtocolVersion},
        {99, kProtocolVersion}}) {
    ServerProtocol protocol({}, kStart);
    wire::Hello hello;
    hello.version_max = max;
    ASSERT_TRUE(protocol.receive(now_, wire::encode(hello)));
    EXPECT_EQ(std::get<HelloReceived>(protocol.next_event().value()).version, taken);
    protocol.accept(small_welcome());
    EXPECT_EQ(std::get<wire::Welcome>(take_messages(protocol).at(0)).version, taken);
  }
}

TEST_F(ServerProtocolTest, RejectedHelloEndsWithReason) {
  ASSERT_TRUE(hear(wire::Hello()));
  protocol_.fail({Errc::unauthorized, "wrong token"});
  expect_farewell(Errc::unauthorized);
}

// An error reported by the client is not a fault of the client, whatever its code.
TEST_F(ServerProtocolTest, TreatsClientErrorAsDisconnect) {
  for (const Errc said : {Errc::protocol, Errc::bad_message, Errc::io}) {
    sign_in();
    EXPECT_EQ(code_after(wire::ErrorReport{.code = said, .message = "what is this"}),
              Errc::link_down);
    EXPECT_TRUE(protocol_.finished());
  }
}

TEST_F(ServerProtocolTest, RejectsRequestBeforeWelcome) {
  ASSERT_TRUE(hear(wire::Hello()));
  EXPECT_EQ(code_after(prompt_of(1, 1)), Errc::protocol);
}

TEST_F(ServerProtocolTest, RejectsSecondHello) {
  sign_in();
  EXPECT_EQ(code_after(wire::Hello()), Errc::protocol);
}

TEST_F(ServerProtocolTest, RejectsServerMessagesFromClient) {
  for (const wire::Message& message : std::vector<wire::Message>{
           small_welcome(), wire::Verdict{.round = 1, .length = 1}, chunk_of(1, 0, 1)}) {
    sign_in();
    EXPECT_EQ(code_after(message), Errc::protocol);
  }
}

TEST_F(ServerProtocolTest, RejectsRoundsOutOfSequence) {
  for (const std::uint32_t round : {0u, 1u, 3u, 0xFFFFFFFFu}) {
    prompt();
    EXPECT_EQ(code_after(prompt_of(2, round)), Errc::protocol) << round;
  }
}

TEST_F(ServerProtocolTest, RejectsConcurrentRequests) {
  sign_in();
  ASSERT_TRUE(hear(prompt_of(10, 1)));
  EXPECT_EQ(code_after(prompt_of(10, 2)), Errc::protocol);
}

// Longer than the deadline of one frame: 400 kB at the rate that padding leaves.
TEST_F(ServerProtocolTest, AcceptsLongPromptOverSlowLink) {
  wire::Welcome welcome = small_welcome();
  welcome.context_count = 1u << 17;
  sign_in(welcome);
  const Bytes frame = wire::encode(outgoing(prompt_of(100'000, 1)));
  constexpr std::size_t kBytesASecond = 4096;
  for (std::size_t done = 0; done < frame.size(); done += kBytesASecond) {
    const ByteView rest = ByteView(frame).subspan(done);
    ASSERT_TRUE(protocol_.receive(now_, rest.first(std::min(rest.size(), kBytesASecond))));
    now_ += 1s;
    ASSERT_TRUE(protocol_.tick(now_)) << done;
  }
  expect_event<PrefillRequested>();
}

// 30 s per 64 KiB, so a trickling frame cannot hold a connection open.
TEST_F(ServerProtocolTest, TimesOutTricklingPrompt) {
  wire::Welcome welcome = small_welcome();
  welcome.context_count = 1u << 17;
  sign_in(welcome);
  const Bytes frame = wire::encode(outgoing(prompt_of(100'000, 1)));
  std::size_t done = 0;
  const auto hear_more = [&](std::size_t count) {
    ASSERT_TRUE(protocol_.receive(now_, ByteView(frame).subspan(done, count)));
    done += count;
  };
  hear_more(1);
  now_ = kStart + 29s;
  hear_more(64u << 10);
  now_ = kStart + 58s;
  ASSERT_TRUE(protocol_.tick(now_));
  hear_more((64u << 10) - 1);
  now_ = kStart + 59s;
  EXPECT_EQ(protocol_.tick(now_).error().code, Errc::timed_out);
  expect_farewell(Errc::timed_out);
}

// A full context of tokens with the largest constraint allowed.
TEST_F(ServerProtocolTest, LargestPromptFitsIntoFrame) {
  wire::Welcome welcome = small_welcome();
  welcome.context_count = 4096;
  sign_in(welcome);
  wire::Prefill prefill = prompt_of(welcome.context_count, 1);
  prefill.constraints.grammar.assign(kGrammarBytesMax, 'a');
  prefill.constraints.stops.assign(kStopsMax, std::string(kStopBytesMax, 'b'));
  prefill.constraints.biases.assign(kBiasesMax, {.token = 1u << 20, .bias = -kBiasMax});
  prefill.constraints.presence_penalty = 1.0f;
  prefill.constraints.frequency_penalty = 1.0f;
  prefill.sampling = {.temperature = 1.0f, .top_k = 40, .top_p = 0.9f, .seed = ~0ull};
  prefill.run = {.credit = welcome.context_count, .rows = true, .hold = wire::Hold::economy};
  ASSERT_TRUE(hear(prefill));
  const auto event = protocol_.next_event();
  ASSERT_TRUE(event && std::holds_alternative<PrefillRequested>(*event));
  EXPECT_EQ(std::get<PrefillRequested>(*event).request, prefill);
}

TEST_F(ServerProtocolTest, PromptMayStartOnlyWithinConfirmedText) {
  prompt();
  ASSERT_TRUE(hear(prompt_of(3, 2, 4))) << "an edited chat";
  ASSERT_TRUE(protocol_.verdict({.round = 2, .next = 7}));
  EXPECT_EQ(protocol_.length(), 8u);
  EXPECT_EQ(code_after(prompt_of(3, 3, 9)), Errc::protocol);
}

TEST_F(ServerProtocolTest, AcceptsAllKeptTokens) {
  sign_in();
  wire::Prefill prefill = prompt_of(10, 1);
  prefill.provisional_count = 4;
  prefill.policy = wire::ResyncPolicy::keep;
  ASSERT_TRUE(hear(prefill));
  ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 7}));
  EXPECT_EQ(std::get<wire::Verdict>(take_messages(protocol_).at(0)).accepted_count, 4u);
  EXPECT_EQ(protocol_.length(), 11u);
}

// An invalid answer, whatever its cause, ends the connection with an error to the client.
TEST_F(ServerProtocolTest, InvalidAnswerEndsConnection) {
  const auto ended = [&](const wire::Verdict& answer) {
    EXPECT_FALSE(protocol_.verdict(answer));
    EXPECT_TRUE(protocol_.finished());
    EXPECT_EQ(protocol_.failure().value().code, Errc::io);
    const auto said = take_messages(protocol_);
    ASSERT_EQ(said.size(), 1u);
    EXPECT_TRUE(std::get<wire::ErrorReport>(said[0]).fatal);
  };
  begin_run(kLockstep);
  ASSERT_TRUE(hear(chain_of(1, 11, 3)));
  ended({.round = 1, .next = 7});  // rows are missing
  begin_run(kLockstep);
  ended(accepting(1, 11, 0));  // before the hints were complete
  begin_run({.credit = 13});
  ended({.round = 1, .next = 7, .tokens = {1, 2}});  // exceeds the credit
  begin_run({.credit = 13, .rows = true});
  ended({.round = 1, .next = 7, .activations = packed_rows(10, 1)});  // rows are sent separately
  sign_in();
  ASSERT_TRUE(hear(prompt_of(99, 1)));
  ended({.round = 1, .next = 7, .accepted_count = 1});
}

TEST_F(ServerProtocolTest, VerdictsCarryOneRowInNewestRowMode) {
  const auto answer = [&](Bytes rows) {
    wire::Welcome welcome = small_welcome();
    welcome.newest_row = true;
    begin_run(kLockstep, welcome);
    EXPECT_TRUE(hear(chain_of(1, 11, 3)));
    wire::Verdict answered = accepting(1, 11, 2);
    answered.activations = std::move(rows);
    return protocol_.verdict(std::move(answered));
  };
  EXPECT_TRUE(answer(packed_rows(12, 1)));
  EXPECT_EQ(protocol_.length(), 14u);
  EXPECT_FALSE(answer(packed_rows(10, 3)));
}

// Rows of a larger model's size.
TEST_F(ServerProtocolTest, PadFramesEnlargeRowsOfVerdict) {
  constexpr std::uint32_t kRowBytes = 10'000;
  ASSERT_TRUE(hear(wire::Hello()));
  expect_event<HelloReceived>();
  protocol_.accept(small_welcome(), kRowBytes);
  wire::Prefill prefill = prompt_of(10, 1);
  prefill.run = kLockstep;
  ASSERT_TRUE(hear(prefill));
  ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 7}));
  take_messages(protocol_);
  EXPECT_EQ(protocol_.traffic().pad_bytes_out, 0u) << "no rows yet";

  ASSERT_TRUE(hear(chain_of(1, 11, 3)));
  ASSERT_TRUE(protocol_.verdict(accepting(1, 11, 2)));
  FrameReader reader(kHandshakePayloadBytesMax);
  reader.append(protocol_.take_output());
  std::vector<std::uint16_t> kinds;
  for (auto frame = reader.next(); frame && *frame; frame = reader.next()) {
    kinds.push_back((*frame)->kind);
  }
  EXPECT_EQ(kinds, (std::vector<std::uint16_t>{14, 14, 6}));
  EXPECT_EQ(protocol_.traffic().pad_bytes_out, 3 * (kRowBytes - small_layout().row_bytes()));
  EXPECT_EQ(protocol_.traffic().activation_bytes_raw, 3 * small_layout().row_bytes());
}

TEST_F(ServerProtocolTest, UnrequestedActivationsEndConnection) {
  prompt();
  EXPECT_FALSE(protocol_.activations(chunk_of(1, 3, 4)));
  EXPECT_TRUE(protocol_.finished());
  EXPECT_EQ(protocol_.failure().value().code, Errc::io);
}

TEST_F(ServerProtocolTest, PromptMayRequestNoActivations) {
  prompt();
  wire::Prefill prefill = prompt_of(3, 2, 11);
  prefill.activations_from = 14;
  ASSERT_TRUE(hear(prefill));
  ASSERT_TRUE(protocol_.verdict({.round = 2, .next = 7}));
  EXPECT_FALSE(protocol_.activations(chunk_of(2, 13, 1)));
}

TEST_F(ServerProtocolTest, VerdictsOvertakeActivations) {
  begin_run({.credit = 20});
  ASSERT_TRUE(protocol_.activations(chunk_of(1, 8, 2)));
  ASSERT_TRUE(protocol_.activations(chunk_of(1, 4, 4)));
  ASSERT_TRUE(protocol_.activations(chunk_of(1, 0, 4)));
  ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 7}));
  const auto messages = take_messages(protocol_);
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_TRUE(std::holds_alternative<wire::Verdict>(messages[0]));
  EXPECT_EQ(std::get<wire::Activations>(messages[1]).first, 8u);
  EXPECT_EQ(std::get<wire::Activations>(messages[3]).first, 0u);
}

TEST_F(ServerProtocolTest, DropsActivationsOfOlderPrompt) {
  prompt();
  ASSERT_TRUE(protocol_.activations(chunk_of(1, 8, 2)));
  ASSERT_TRUE(hear(prompt_of(3, 2)));
  EXPECT_FALSE(protocol_.has_output());
  EXPECT_FALSE(protocol_.activations(chunk_of(1, 4, 4)));
  EXPECT_EQ(protocol_.traffic().activation_bytes_raw, 0u) << "unsent activations are not counted";
}

TEST_F(ServerProtocolTest, DropsAnswersToCancelledRound) {
  begin_run(kLockstep);
  ASSERT_TRUE(hear(chain_of(1, 11, 2)));
  expect_event<HintsReceived>();
  ASSERT_TRUE(hear(wire::Cancel{1}));
  expect_event<RoundCancelled>();
  EXPECT_FALSE(protocol_.verdict(accepting(1, 11, 1)));
  EXPECT_FALSE(protocol_.refuse(1, {Errc::io, ""}));
  EXPECT_FALSE(protocol_.has_output());
}

TEST_F(ServerProtocolTest, NextPromptContinuesSessionAfterCancel) {
  begin_run(kLockstep);
  ASSERT_TRUE(hear(wire::Cancel{1}));
  EXPECT_TRUE(hear(prompt_of(3, 2, 11)));
}

TEST_F(ServerProtocolTest, SignsWholeCheckedTextOnRequest) {
  wire::Welcome welcome = small_welcome();
  welcome.arithmetic = "here";
  for (const bool asks : {false, true}) {
    sign_in(welcome);
    std::string signed_text;
    protocol_.set_signer([&signed_text](ByteView statement) {
      signed_text.assign(reinterpret_cast<const char*>(statement.data()), statement.size());
      return Bytes(3, std::byte{5});
    });
    ASSERT_TRUE(hear(wire::Prefill{
        .round = 1, .tokens = {1, 2, 3, 4}, .provisional_count = 2, .receipt = asks}));
    expect_event<PrefillRequested>();
    // The target chooses 9 instead of 4.
    ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 9, .accepted_count = 1}));
    const auto verdict = std::get<wire::Verdict>(take_messages(protocol_).at(0));
    EXPECT_EQ(verdict.receipt.size(), asks ? 3u : 0u);
    const std::vector<std::uint32_t> prompt{1, 2};
    const std::vector<std::uint32_t> answer{3, 9};
    const auto provenance = attested_answer(1);
    const std::string statement = receipt_statement(
        {.arithmetic = "here", .prompt = prompt, .answer = answer, .provenance = provenance});
    EXPECT_EQ(signed_text, asks ? statement : "");
  }
}

TEST_F(ServerProtocolTest, SignsNoContinuationOrKeptText) {
  prompt();
  protocol_.set_signer([](ByteView) { return Bytes(3, std::byte{5}); });
  wire::Prefill kept{.round = 3,
                     .tokens = {1, 2, 3},
                     .provisional_count = 1,
                     .policy = wire::ResyncPolicy::keep,
                     .receipt = true};
  for (const wire::Prefill& request :
       {wire::Prefill{.round = 2, .base_length = 11, .tokens = {1}, .receipt = true}, kept}) {
    ASSERT_TRUE(hear(request));
    expect_event<PrefillRequested>();
    ASSERT_TRUE(protocol_.verdict({.round = request.round, .next = 9}));
    EXPECT_TRUE(std::get<wire::Verdict>(take_messages(protocol_).at(0)).receipt.empty());
  }
}

TEST_F(ServerProtocolTest, RejectsCancelOfAnotherRound) {
  prompt();
  EXPECT_EQ(code_after(wire::Cancel{2}), Errc::protocol);
}

TEST_F(ServerProtocolTest, RefusedRequestKeepsSession) {
  begin_run(kLockstep);
  ASSERT_TRUE(hear(chain_of(1, 11, 2)));
  ASSERT_TRUE(protocol_.refuse(1, {Errc::protocol, "no such token"}));
  const auto report = std::get<wire::ErrorReport>(take_messages(protocol_).at(0));
  EXPECT_FALSE(report.fatal);
  EXPECT_EQ(report.round, 1u);
  EXPECT_EQ(protocol_.length(), 11u);
}

TEST_F(ServerProtocolTest, RejectsContinuationOfUnknownSession) {
  sign_in();
  wire::Resume resume{.round = 1, .verified_length = 20, .tokens = {1}};
  ASSERT_TRUE(hear(resume));
  ASSERT_TRUE(protocol_.refuse(1, {Errc::session_unknown, "forgotten"}));
  EXPECT_EQ(code_after(prompt_of(3, 2, 1)), Errc::protocol);
}

TEST_F(ServerProtocolTest, ResumedSessionCountsAcceptedTokens) {
  sign_in();
  wire::Resume resume{.round = 1, .verified_length = 20, .tokens = {1, 2, 3}};
  ASSERT_TRUE(hear(resume));
  ASSERT_TRUE(protocol_.verdict({.round = 1, .next = 7, .accepted_count = 2}));
  EXPECT_EQ(protocol_.length(), 23u);
}

TEST_F(ServerProtocolTest, DropsClientThatNeverReads) {
  ServerProtocol protocol({.channel = {}, .urgent_bytes_max = 5000}, kStart);
  ASSERT_TRUE(protocol.receive(now_, wire::encode(wire::Hello())));
  protocol.accept(small_welcome());
  Result<void> heard = boost::system::in_place_value;
  for (std::uint32_t round = 1; round < 1000 && heard; ++round) {
    heard = protocol.receive(
        now_, wire::encode(outgoing(wire::Prefill{.round = round, .tokens = {1, 2, 3}})));
    protocol.refuse(round, {Errc::refused, "out of memory"});
  }
  EXPECT_FALSE(heard);
  EXPECT_TRUE(protocol.finished());
}

TEST_F(ServerProtocolTest, AnswersOnlyNewestOfUnansweredPings) {
  sign_in();
  for (std::uint64_t nonce = 1; nonce <= 1000; ++nonce) ASSERT_TRUE(hear(wire::Ping{nonce}));
  const auto answers = take_messages(protocol_);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(std::get<wire::Pong>(answers[0]).nonce, 1000u) << "only the newest ping is answered";
  EXPECT_FALSE(protocol_.has_output());
}

TEST_F(ServerProtocolTest, CancelsRoundOnce) {
  prompt();
  while (protocol_.next_event()) {
  }
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(hear(wire::Cancel{1}));
  ASSERT_TRUE(protocol_.next_event());
  EXPECT_FALSE(protocol_.next_event());
}

TEST_F(ServerProtocolTest, IgnoresMessagesAfterClose) {
  sign_in();
  protocol_.close("done");
  EXPECT_EQ(code_after(wire::Hello()), Errc::link_down);
  EXPECT_FALSE(protocol_.next_event());
}

TEST_F(ServerProtocolTest, TimesOutStalledHandshake) {
  EXPECT_EQ(protocol_.tick(kStart + 10s).error().code, Errc::timed_out);
  expect_farewell(Errc::timed_out);
}

// Random input ends the session or is ignored; the session never answers out of turn.
TEST_F(ServerProtocolTest, RandomBytesEndSessionOrAreIgnored) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    sign_in();
    Bytes garbage(kFrameHeaderBytes + random.below(400));
    for (std::byte& b : garbage) b = static_cast<std::byte>(random.below(256));
    if (random.below(2) == 0) {
      // Valid headers, so that the decoder is reached.
      encode_frame_header({.kind = static_cast<std::uint16_t>(random.below(14)),
                           .payload_bytes = static_cast<std::uint32_t>(garbage.size())},
                          std::span(garbage).first<kFrameHeaderBytes>());
    }
    const auto heard = protocol_.receive(now_, garbage);
    EXPECT_EQ(heard.has_error(), protocol_.finished()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace edgedraft
