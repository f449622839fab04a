#include "shared/protocol/message.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <string>

#include "messages_generated.h"
#include "shared/protocol/frame.h"
#include "tests/protocol/support.h"
#include "tests/support/expect.h"

namespace edgedraft::wire {
namespace {

using flatbuffers::FlatBufferBuilder;

Result<Message> decode_frame(ByteView frame) {
  const auto header = decode_frame_header(frame, kFramePayloadBytesMax);
  EXPECT_TRUE(header);
  EXPECT_EQ(header->payload_bytes, frame.size() - kFrameHeaderBytes);
  return decode(header->kind, frame.subspan(kFrameHeaderBytes));
}

Digest digest_of(std::uint8_t value) {
  Digest digest;
  digest.fill(std::byte{value});
  return digest;
}

std::vector<Message> one_of_each() {
  Hello hello{.version_min = 1, .version_max = 3, .agent = "edgedraft 0.1", .token = "secret"};
  hello.target = digest_of(1);
  hello.drafter = digest_of(3);
  hello.drafter_name = "moa-tli1";
  hello.tap = "keys-and-values-1";
  hello.newest_row = true;
  Welcome welcome{.version = 1, .agent = "server", .model = "demo"};
  welcome.session.fill(std::byte{7});
  welcome.context_count = 4096;
  welcome.nodes_max = 255;
  welcome.scale_groups = {64, 32, 32};
  welcome.hint_nodes_max = 1000;
  welcome.newest_row = true;
  welcome.pass_times = {{1, 900}, {256, ~0u}};
  welcome.replica = "r-1.cloud";
  welcome.arithmetic = "edgedraft-server 0.1, cpu";
  welcome.target = digest_of(4);
  const SamplingParams sampling{
      .temperature = 0.7f, .top_k = 40, .top_p = 0.9f, .min_p = 0.05f, .seed = ~0ull};
  return {
      hello,
      welcome,
      Prefill{
          .round = 1,
          .base_length = 10,
          .tokens = {0, 1, (1u << 24) - 1},
          .provisional_count = 2,
          .policy = ResyncPolicy::keep,
          .activations_from = 9,
          .sampling = sampling,
          .run = {.credit = kContextCountMax, .rows = true, .hold = Hold::lockstep, .logprobs = 21},
          .receipt = true},
      Activations{
          .round = 1, .first = 3, .count = 2, .codec = Codec::gzip, .data = Bytes(5, std::byte{9})},
      Hints{.round = 2,
            .complete = true,
            .position = 13,
            .nodes = {{5, 0}, {6, 0}, {5, 2}, {(1u << 24) - 1, 1}}},
      Verdict{.round = 2,
              .length = 16,
              .next = 77,
              .accepted_count = 0,
              .ending = Ending::end_token,
              .activations = Bytes(33, std::byte{1}),
              .queue_us = 12,
              .verify_us = 3456,
              .receipt = Bytes(kReceiptBytesMax, std::byte{2})},
      Hints{.round = 3, .complete = true, .position = 16},
      Verdict{.round = 3,
              .length = 19,
              .next = 77,
              .tokens = {5, (1u << 24) - 1},
              .drafted = 255,
              .draft_us = 123,
              .hinted = 3,
              .hints_seen = ~0u,
              .logprobs = {{.token = 5, .value = -0.25f}, {.token = 6, .value = 0.0f}}},
      Resume{.round = 1,
             .session = welcome.session,
             .verified_length = 16,
             .verified_hash = digest_of(8),
             .tokens = {1, 2, 3},
             .policy = ResyncPolicy::check,
             .activations_from = 12,
             .sampling = sampling,
             .run = {.credit = 40}},
      Hints{.round = 4,
            .credit = 99,
            .hold = Hold::economy,
            .first = 70'000,
            .position = 19,
            .nodes = {{5, 0, 0}, {(1u << 24) - 1, 1, 17}, {0, kHintDistanceMax, 255}}},
      Ping{1, 6},
      Pong{~0ull},
      Cancel{5},
      Close{"bye"},
      ErrorReport{.round = 4, .code = Errc::session_unknown, .fatal = false, .message = "gone"},
  };
}

TEST(MessageTest, EveryKindRoundTrips) {
  for (const Message& message : one_of_each()) {
    const auto decoded = decode_frame(encode(outgoing(message)));
    ASSERT_TRUE(decoded) << to_string(kind_of(message)) << ": " << decoded.error().message;
    EXPECT_EQ(*decoded, arriving(message)) << to_string(kind_of(message));
  }
}

TEST(MessageTest, LargestCompleteHintsRoundTrip) {
  Hints hints{.round = 1, .complete = true, .position = 1};
  for (std::uint32_t i = 0; i < kDraftNodesMax; ++i) {
    hints.nodes.push_back({.token = i, .distance = static_cast<std::uint16_t>(i)});
  }
  EXPECT_EQ(*decode_frame(encode(outgoing(hints))), Message(hints));
}

// Seeds in an older format would never get past the decoder's first checks.
TEST(MessageTest, FuzzSeedsCoverEveryKind) {
  const auto folder =
      std::filesystem::path(EDGEDRAFT_TEST_DATA).parent_path() / "fuzz/corpus/messages";
  std::set<Kind> kinds;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    ASSERT_FALSE(bytes.empty()) << entry.path();
    const auto message =
        decode(static_cast<std::uint8_t>(bytes[0]), as_byte_view(bytes).subspan(1));
    ASSERT_TRUE(message) << entry.path() << ": " << message.error().message;
    kinds.insert(kind_of(*message));
    if (const auto* hello = std::get_if<Hello>(&*message)) {
      EXPECT_EQ(hello->tap, "rows-2");
    }
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Message>);
}

TEST(MessageTest, AcceptsUnalignedPayload) {
  for (const Message& message : one_of_each()) {
    Bytes shifted{std::byte{0}};
    const Bytes frame = encode(outgoing(message));
    shifted.insert(shifted.end(), frame.begin() + kFrameHeaderBytes, frame.end());
    EXPECT_EQ(*decode(static_cast<std::uint16_t>(kind_of(message)), ByteView(shifted).subspan(1)),
              arriving(message));
  }
}

TEST(MessageTest, TruncationNeverGivesAnotherMessage) {
  for (const Message& message : one_of_each()) {
    const Bytes frame = encode(outgoing(message));
    for (std::size_t count = kFrameHeaderBytes; count + 8 < frame.size(); ++count) {
      const auto decoded =
          decode(static_cast<std::uint16_t>(kind_of(message)),
                 ByteView(frame).subspan(kFrameHeaderBytes, count - kFrameHeaderBytes));
      // Truncation may remove only padding or defaults; the message must not decode to another one.
      if (decoded) {
        EXPECT_EQ(*decoded, arriving(message)) << to_string(kind_of(message)) << " " << count;
      }
    }
    EXPECT_EQ(decode(static_cast<std::uint16_t>(kind_of(message)), {}).error().code,
              Errc::bad_message);
  }
}

// Any byte string either decodes or is refused; a decoded message can be re-encoded.
TEST(MessageTest, FlippedBitsDecodeOrAreRejected) {
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    Random random(seed);
    const auto messages = one_of_each();
    const Message& message = messages[random.below(messages.size())];
    Bytes payload = encode(outgoing(message));
    payload.erase(payload.begin(), payload.begin() + kFrameHeaderBytes);
    for (std::uint64_t flips = 1 + random.below(4); flips > 0; --flips) {
      payload[random.below(payload.size())] ^= static_cast<std::byte>(1u << random.below(8));
    }
    const auto kind =
        random.below(8) == 0 ? random.below(20) : static_cast<std::uint64_t>(kind_of(message));
    const auto decoded = decode(static_cast<std::uint16_t>(kind), payload);
    if (!decoded) continue;
    EXPECT_EQ(*decode_frame(encode(outgoing(*decoded))), arriving(*decoded)) << "seed " << seed;
  }
}

TEST(MessageTest, RejectsUnknownKinds) {
  const Bytes frame = encode(Ping{1});
  for (const int kind : {0, 14, 255, 65535}) {
    EXPECT_EQ(decode(static_cast<std::uint16_t>(kind), ByteView(frame).subspan(kFrameHeaderBytes))
                  .error()
                  .code,
              Errc::bad_message);
  }
}

TEST(MessageTest, TruncatesLongReason) {
  const auto decoded = decode_frame(encode(Close{std::string(5000, 'x')}));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<Close>(*decoded).reason.size(), kTextBytesMax);
}

TEST(FingerprintTest, MismatchNamesDifferingPart) {
  Hello hello;
  hello.target = digest_of(1);
  hello.tokenizer = digest_of(2);
  hello.drafter = digest_of(3);
  EXPECT_TRUE(check_fingerprints(hello, {digest_of(1), digest_of(2), digest_of(3)}));
  EXPECT_TRUE(check_fingerprints(hello, {digest_of(1), digest_of(2), std::nullopt}));

  const auto drafter = check_fingerprints(hello, {digest_of(1), digest_of(2), digest_of(4)});
  ASSERT_TRUE(fails_with(drafter, Errc::mismatch, "drafter"));
  EXPECT_EQ(drafter.error().message.find("tokenizer"), std::string::npos);

  hello.drafter.reset();
  EXPECT_TRUE(check_fingerprints(hello, {digest_of(1), digest_of(2), digest_of(4)}))
      << "plain decoding sends no drafter fingerprint";
}

TEST(TokenHashTest, IsSha256OverLittleEndianIds) {
  const std::vector<std::uint32_t> ids = {1, 0x010203};
  Bytes bytes;
  for (const int b : {1, 0, 0, 0, 3, 2, 1, 0}) bytes.push_back(static_cast<std::byte>(b));
  EXPECT_EQ(token_hash(ids), sha256(bytes));
}

}  // namespace
}  // namespace edgedraft::wire
