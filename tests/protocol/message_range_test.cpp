// Out-of-range messages, which our encoder never writes, are refused.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "messages_generated.h"
#include "shared/protocol/message.h"
#include "tests/protocol/support.h"

namespace edgedraft::wire {
namespace {

using flatbuffers::FlatBufferBuilder;

template <class T>
Errc code_of(Kind kind, FlatBufferBuilder& builder, flatbuffers::Offset<T> root) {
  builder.Finish(root);
  const auto bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  const auto decoded = decode(static_cast<std::uint16_t>(kind), bytes);
  return decoded ? Errc::cancelled : decoded.error().code;  // cancelled: unused by these messages
}

Errc complete_code(std::vector<std::uint32_t> nodes, std::uint32_t position = 5) {
  FlatBufferBuilder b;
  return code_of(Kind::hints, b, flat::CreateHintsDirect(b, 1, position, &nodes, true));
}

TEST(CompleteHintsRangeTest, ParentMustBeOlder) {
  EXPECT_EQ(complete_code({7, 7 | 1u << 24, 7 | 2u << 24}), Errc::cancelled);
  EXPECT_EQ(complete_code({7 | 1u << 24}), Errc::protocol) << "parent before the first node";
  EXPECT_EQ(complete_code({7, 7, 7 | 3u << 24}), Errc::protocol) << "parent before the first node";
  EXPECT_EQ(complete_code({7, 7 | 255u << 24}), Errc::protocol);
}

TEST(CompleteHintsRangeTest, AllowsDuplicateSiblings) {
  EXPECT_EQ(complete_code({7, 7, 7}), Errc::cancelled);
}

TEST(CompleteHintsRangeTest, AllowsAtMost255Nodes) {
  EXPECT_EQ(complete_code(std::vector<std::uint32_t>(255, 1)), Errc::cancelled);
  EXPECT_EQ(complete_code(std::vector<std::uint32_t>(256, 1)), Errc::protocol);
  EXPECT_EQ(complete_code(std::vector<std::uint32_t>(100'000, 1)), Errc::protocol);
}

TEST(CompleteHintsRangeTest, RejectsNodeCountBeyondBuffer) {
  const std::vector<std::uint32_t> nodes(3, 1);
  FlatBufferBuilder b;
  b.Finish(flat::CreateHintsDirect(b, 1, 5, &nodes, true));
  Bytes bytes(b.GetSize());
  std::memcpy(bytes.data(), b.GetBufferPointer(), bytes.size());
  // The vector is written first, so it comes last; its count precedes its elements.
  const std::size_t count_offset = bytes.size() - 4 * 3 - 4;
  ASSERT_EQ(load_le<std::uint32_t>(bytes.data() + count_offset), 3u);
  for (const std::uint32_t count : {4u, 1u << 31, 0xFFFFFFFFu}) {
    store_le(bytes.data() + count_offset, count);
    EXPECT_EQ(decode(13, bytes).error().code, Errc::bad_message) << count;
  }
}

TEST(CompleteHintsRangeTest, RejectsPositionOfNoSession) {
  EXPECT_EQ(complete_code({}, 0), Errc::protocol);
  EXPECT_EQ(complete_code({}, 0xFFFFFFFF), Errc::protocol);
}

struct PrefillFields {
  std::vector<std::uint32_t> ids = {1, 2, 3};
  std::uint32_t base_length = 0;
  std::uint32_t provisional_count = 0;
  std::uint8_t policy = 0;
  std::uint32_t activations_from = 0;
  float temperature = 1;
  float top_p = 1;
  float min_p = 0;
};

Errc prefill_code(const PrefillFields& f) {
  FlatBufferBuilder b;
  const flat::Sampling sampling(1, f.temperature, 0, f.top_p, f.min_p);
  return code_of(Kind::prefill, b,
                 flat::CreatePrefillDirect(b, 1, f.base_length, &f.ids, f.provisional_count,
                                           f.policy, f.activations_from, &sampling));
}

TEST(PrefillRangeTest, TokenIdsFitInThreeBytes) {
  EXPECT_EQ(prefill_code({.ids = {(1u << 24) - 1}}), Errc::cancelled);
  EXPECT_EQ(prefill_code({.ids = {1u << 24}}), Errc::protocol);
  EXPECT_EQ(prefill_code({.ids = {0xFFFFFFFF}}), Errc::protocol);
}

TEST(PrefillRangeTest, RejectsSamplingOutOfRange) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(prefill_code({.temperature = 0, .top_p = 1, .min_p = 1}), Errc::cancelled);
  for (const float bad : {kNan, kInfinity, -kInfinity, -1.0f, 101.0f, 1e38f}) {
    EXPECT_EQ(prefill_code({.temperature = bad}), Errc::protocol) << bad;
    EXPECT_EQ(prefill_code({.top_p = bad}), Errc::protocol) << bad;
    EXPECT_EQ(prefill_code({.min_p = bad}), Errc::protocol) << bad;
  }
  EXPECT_EQ(prefill_code({.top_p = 0}), Errc::protocol) << "keeps no token";
}

TEST(PrefillRangeTest, RequiresSampling) {
  FlatBufferBuilder b;
  const std::vector<std::uint32_t> ids = {1};
  EXPECT_EQ(code_of(Kind::prefill, b, flat::CreatePrefillDirect(b, 1, 0, &ids)), Errc::bad_message);
}

TEST(PrefillRangeTest, RejectsInconsistentLengths) {
  EXPECT_EQ(prefill_code({.provisional_count = 2}), Errc::cancelled);
  EXPECT_EQ(prefill_code({.provisional_count = 3}), Errc::protocol) << "no given token";
  EXPECT_EQ(prefill_code({.base_length = 1, .provisional_count = 3}), Errc::cancelled);
  EXPECT_EQ(prefill_code({.provisional_count = 0xFFFFFFFF}), Errc::protocol);
  EXPECT_EQ(prefill_code({.base_length = 0xFFFFFFFF}), Errc::protocol);
  EXPECT_EQ(prefill_code({.ids = {}}), Errc::protocol) << "no tokens";
  // Three tokens follow the four.
  EXPECT_EQ(prefill_code({.base_length = 4, .activations_from = 7}), Errc::cancelled);
  EXPECT_EQ(prefill_code({.base_length = 4, .activations_from = 8}), Errc::protocol);
}

TEST(EnumRangeTest, RejectsUnknownValues) {
  EXPECT_EQ(prefill_code({.policy = 2}), Errc::bad_message);
  FlatBufferBuilder activations;
  EXPECT_EQ(
      code_of(Kind::activations, activations, flat::CreateActivations(activations, 1, 0, 1, 3)),
      Errc::bad_message);
  FlatBufferBuilder verdict;
  EXPECT_EQ(
      code_of(Kind::verdict, verdict, flat::CreateVerdict(verdict, 1, 1, 1, 0, 0, /*ending=*/4)),
      Errc::bad_message);
  for (const int code : {0, 14, 65535}) {
    FlatBufferBuilder error;
    EXPECT_EQ(
        code_of(Kind::error, error, flat::CreateError(error, 0, static_cast<std::uint16_t>(code))),
        Errc::bad_message);
  }
}

TEST(ActivationsRangeTest, LimitsRowsPerMessage) {
  const auto code = [](std::uint32_t count) {
    FlatBufferBuilder b;
    return code_of(Kind::activations, b, flat::CreateActivations(b, 1, 0, count));
  };
  EXPECT_EQ(code(0), Errc::protocol);
  EXPECT_EQ(code(256), Errc::cancelled);
  EXPECT_EQ(code(257), Errc::protocol);
}

TEST(ResumeRangeTest, RejectsWrongSizesOfIdsAndHashes) {
  const std::vector<std::uint8_t> id(16);
  const std::vector<std::uint8_t> hash(32);
  const std::vector<std::uint8_t> odd(17);
  const flat::Sampling sampling(1, 0, 0, 1, 0);
  const auto code = [&](const auto* protocol, const auto* verified_hash) {
    FlatBufferBuilder b;
    return code_of(
        Kind::resume, b,
        flat::CreateResumeDirect(b, 1, protocol, 4, verified_hash, nullptr, 0, 0, &sampling));
  };
  EXPECT_EQ(code(&id, &hash), Errc::cancelled);
  EXPECT_EQ(code(&odd, &hash), Errc::bad_message);
  EXPECT_EQ(code(&id, &odd), Errc::bad_message);
  EXPECT_EQ(code(static_cast<const std::vector<std::uint8_t>*>(nullptr), &hash), Errc::bad_message);
}

TEST(ResumeRangeTest, ActivationsBeginNoLaterThanAfterLastToken) {
  const std::vector<std::uint8_t> id(16);
  const std::vector<std::uint8_t> hash(32);
  const std::vector<std::uint32_t> offline(3, 7);
  const flat::Sampling sampling(1, 0, 0, 1, 0);
  const auto code = [&](std::uint32_t activations_from) {
    FlatBufferBuilder b;
    return code_of(
        Kind::resume, b,
        flat::CreateResumeDirect(b, 1, &id, 4, &hash, &offline, 0, activations_from, &sampling));
  };
  EXPECT_EQ(code(5), Errc::cancelled);
  EXPECT_EQ(code(7), Errc::cancelled);
  EXPECT_EQ(code(8), Errc::protocol);
  EXPECT_EQ(code(~0u), Errc::protocol);
}

TEST(WelcomeRangeTest, BoundsRows) {
  const std::vector<std::uint8_t> id(16);
  const auto code = [&](std::vector<std::uint32_t> groups) {
    FlatBufferBuilder b;
    return code_of(Kind::welcome, b,
                   flat::CreateWelcomeDirect(b, 1, &id, "", "", 100, 62, &groups, 1));
  };
  EXPECT_EQ(code({kRowValuesMax}), Errc::cancelled);
  EXPECT_EQ(code({kRowValuesMax + 1}), Errc::protocol);
  EXPECT_EQ(code({1, 0}), Errc::protocol);
  EXPECT_EQ(code({0xFFFFFFFF, 2}), Errc::protocol) << "the sum must not wrap around";
  EXPECT_EQ(code(std::vector<std::uint32_t>(kScaleGroupsMax + 1, 1)), Errc::protocol);
}

TEST(WelcomeRangeTest, BoundsPassTimes) {
  const std::vector<std::uint8_t> id(16);
  const auto code = [&](std::vector<flat::PassTime> times) {
    FlatBufferBuilder b;
    return code_of(
        Kind::welcome, b,
        flat::CreateWelcomeDirect(b, 1, &id, "", "", 100, 62, nullptr, 1, 0, 0, false, &times));
  };
  EXPECT_EQ(code({{1, 5}, {256, 5}}), Errc::cancelled);
  EXPECT_EQ(code({{0, 5}}), Errc::protocol);
  EXPECT_EQ(code({{257, 5}}), Errc::protocol);
  EXPECT_EQ(code({{1, 0}}), Errc::protocol);
  EXPECT_EQ(code({{2, 5}, {2, 6}}), Errc::protocol) << "widths must increase";
  std::vector<flat::PassTime> many;
  for (std::uint32_t rows = 1; rows <= kPassTimesMax + 1; ++rows) many.emplace_back(rows, 1);
  EXPECT_EQ(code(many), Errc::protocol);
}

TEST(WelcomeRangeTest, ReplicaIsHostName) {
  const std::vector<std::uint8_t> id(16);
  const auto code = [&](const std::string& replica) {
    FlatBufferBuilder b;
    return code_of(Kind::welcome, b,
                   flat::CreateWelcomeDirect(b, 1, &id, "", "", 100, 62, nullptr, 1, 0, 0, false,
                                             nullptr, replica.c_str()));
  };
  for (const std::string& good : {std::string(), std::string("a"), std::string("7b"),
                                  std::string("r-1.cloud"), std::string(kReplicaBytesMax, 'a')}) {
    EXPECT_EQ(code(good), Errc::cancelled) << good;
  }
  for (const std::string& bad :
       {std::string(kReplicaBytesMax + 1, 'a'), std::string("A"), std::string("a_b"),
        std::string("a b"), std::string("-a"), std::string("a-"), std::string("a."),
        std::string(".a"), std::string("a..b"), std::string("a.-b"), std::string("a-.b"),
        std::string("10.0.0.1"), std::string("a\n")}) {
    EXPECT_EQ(code(bad), Errc::protocol) << bad;
  }
}

struct HintFields {
  std::vector<std::uint32_t> nodes = {7};
  std::vector<std::uint16_t> parents = {0};
  std::uint32_t first = 1;
  std::uint32_t position = 5;
  std::uint32_t credit = 0;
  std::uint8_t hold = 0;
  bool complete = false;
  std::uint64_t prefix_hash = 0;
};

Errc hints_code(const HintFields& f) {
  FlatBufferBuilder b;
  return code_of(Kind::hints, b,
                 flat::CreateHintsDirect(b, 1, f.position, &f.nodes, f.complete, f.credit, f.hold,
                                         f.first, f.prefix_hash, &f.parents));
}

TEST(HintRangeTest, ParentMustBeOlder) {
  EXPECT_EQ(hints_code({.nodes = {7, 8}, .parents = {0, 1}}), Errc::cancelled);
  EXPECT_EQ(hints_code({.nodes = {7, 8}, .parents = {0, 2}}), Errc::protocol) << "no node has id 0";
  EXPECT_EQ(hints_code({.nodes = {7, 8}, .parents = {0, 2}, .first = 2}), Errc::cancelled);
  EXPECT_EQ(hints_code({.parents = {kHintDistanceMax}}), Errc::protocol);
}

TEST(HintRangeTest, IdsStartAtOneAndDoNotWrapAround) {
  EXPECT_EQ(hints_code({.first = 0}), Errc::protocol);
  EXPECT_EQ(hints_code({.first = 0xFFFFFFFE}), Errc::cancelled);
  EXPECT_EQ(hints_code({.first = 0xFFFFFFFF}), Errc::protocol);
  EXPECT_EQ(hints_code({.nodes = {}, .parents = {}, .first = 0}), Errc::cancelled)
      << "credit without nodes";
}

TEST(HintRangeTest, BoundsCountsAndPositions) {
  const auto many = [](std::size_t count) {
    return HintFields{.nodes = std::vector<std::uint32_t>(count, 1),
                      .parents = std::vector<std::uint16_t>(count, 0)};
  };
  EXPECT_EQ(hints_code(many(kHintsMax)), Errc::cancelled);
  EXPECT_EQ(hints_code(many(kHintsMax + 1)), Errc::protocol);
  EXPECT_EQ(hints_code({.nodes = {7, 8}, .parents = {0}}), Errc::protocol);
  EXPECT_EQ(hints_code({.position = 0}), Errc::protocol);
  EXPECT_EQ(hints_code({.position = kContextCountMax + 1}), Errc::protocol);
  EXPECT_EQ(hints_code({.credit = kContextCountMax + 1}), Errc::protocol);
}

TEST(HintRangeTest, CompleteHintsHaveNoIdsParentsOrHash) {
  const HintFields good{.parents = {}, .first = 0, .complete = true};
  EXPECT_EQ(hints_code(good), Errc::cancelled);
  HintFields bad = good;
  bad.first = 1;
  EXPECT_EQ(hints_code(bad), Errc::protocol);
  bad = good;
  bad.parents = {0};
  EXPECT_EQ(hints_code(bad), Errc::protocol);
  bad = good;
  bad.prefix_hash = 1;
  EXPECT_EQ(hints_code(bad), Errc::protocol);
}

TEST(HintRangeTest, RejectsUnknownHold) {
  EXPECT_EQ(hints_code({.hold = 2}), Errc::cancelled);
  EXPECT_EQ(hints_code({.hold = 3}), Errc::bad_message);
}

struct ConstraintFields {
  std::vector<std::string> stops{};
  std::string grammar{};
  std::uint32_t answer_begin = 0;
  std::vector<std::uint32_t> bias_tokens{};
  std::vector<float> biases{};
  float presence = 0.0f;
  float frequency = 0.0f;
};

// The error of a prompt with these constraints; Errc::cancelled if it is accepted.
Errc constraints_code(const ConstraintFields& f) {
  const std::vector<std::uint32_t> ids = {1};
  const flat::Sampling sampling(1, 0, 0, 1, 0);
  FlatBufferBuilder b;
  const auto stops = b.CreateVectorOfStrings(f.stops);
  const auto grammar = b.CreateString(f.grammar);
  const auto tokens = b.CreateVector(ids);
  const auto bias_tokens = b.CreateVector(f.bias_tokens);
  const auto biases = b.CreateVector(f.biases);
  return code_of(
      Kind::prefill, b,
      flat::CreatePrefill(b, 1, 0, tokens, 0, 0, 0, &sampling, 9, false, false, stops, grammar,
                          f.answer_begin, bias_tokens, biases, f.presence, f.frequency));
}

TEST(ConstraintsRangeTest, BoundsAllFields) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::string stop(kStopBytesMax, 'x');
  EXPECT_EQ(constraints_code({.stops = std::vector<std::string>(kStopsMax, stop)}),
            Errc::cancelled);
  EXPECT_EQ(constraints_code({.stops = std::vector<std::string>(kStopsMax + 1, "x")}),
            Errc::protocol);
  EXPECT_EQ(constraints_code({.stops = {stop + "x"}}), Errc::protocol);
  EXPECT_EQ(constraints_code({.stops = {""}}), Errc::protocol);
  EXPECT_EQ(constraints_code({.grammar = std::string(kGrammarBytesMax, 'x')}), Errc::cancelled);
  EXPECT_EQ(constraints_code({.grammar = std::string(kGrammarBytesMax + 1, 'x')}), Errc::protocol);
  EXPECT_EQ(constraints_code({.answer_begin = kContextCountMax + 1}), Errc::protocol);
  EXPECT_EQ(constraints_code({.bias_tokens = {1}, .biases = {-100.0f}}), Errc::cancelled);
  EXPECT_EQ(constraints_code({.bias_tokens = {1}, .biases = {nan}}), Errc::protocol);
  EXPECT_EQ(constraints_code({.bias_tokens = {1}, .biases = {1e30f}}), Errc::protocol);
  EXPECT_EQ(constraints_code({.bias_tokens = {1, 2}, .biases = {1.0f}}), Errc::protocol);
  EXPECT_EQ(constraints_code({.bias_tokens = {1}, .biases = {}}), Errc::protocol);
  EXPECT_EQ(constraints_code({.bias_tokens = {kTokenIdEnd}, .biases = {1.0f}}), Errc::protocol);
  const std::vector<std::uint32_t> many(kBiasesMax + 1);
  EXPECT_EQ(constraints_code({.bias_tokens = many, .biases = std::vector<float>(many.size())}),
            Errc::protocol);
  EXPECT_EQ(constraints_code({.presence = nan}), Errc::protocol);
  EXPECT_EQ(constraints_code({.frequency = -1e9f}), Errc::protocol);
  EXPECT_EQ(constraints_code({.presence = -2.0f, .frequency = 2.0f}), Errc::cancelled);
}

TEST(VerdictRangeTest, BoundsTokens) {
  const auto code = [](std::vector<std::uint32_t> tokens, std::uint32_t drafted) {
    FlatBufferBuilder b;
    return code_of(Kind::verdict, b,
                   flat::CreateVerdictDirect(b, 1, 9, 1, 0, &tokens, 0, nullptr, 0, 0, 0, drafted));
  };
  EXPECT_EQ(code(std::vector<std::uint32_t>(kDraftNodesMax, 1), kDraftNodesMax), Errc::cancelled);
  EXPECT_EQ(code(std::vector<std::uint32_t>(kDraftNodesMax + 1, 1), 0), Errc::protocol);
  EXPECT_EQ(code({1u << 24}, 0), Errc::protocol);
  EXPECT_EQ(code({}, kDraftNodesMax + 1), Errc::protocol);
}

TEST(VerdictRangeTest, RejectsInvalidLogProbabilities) {
  const auto code = [](std::vector<std::uint32_t> tokens, std::vector<float> values) {
    flatbuffers::FlatBufferBuilder b;
    const auto some = b.CreateVector(tokens);
    const auto told = b.CreateVector(values);
    flat::VerdictBuilder verdict(b);
    verdict.add_length(9);
    verdict.add_logprob_tokens(some);
    verdict.add_logprobs(told);
    return code_of(Kind::verdict, b, verdict.Finish());
  };
  EXPECT_EQ(code({1, 2}, {-0.5f, -9999.0f}), Errc::cancelled);
  EXPECT_EQ(code({1}, {-0.5f, -1.0f}), Errc::protocol);
  EXPECT_EQ(code({1u << 24}, {-0.5f}), Errc::protocol);
  EXPECT_EQ(code({1}, {0.5f}), Errc::protocol);
  EXPECT_EQ(code({1}, {std::numeric_limits<float>::quiet_NaN()}), Errc::protocol);
  EXPECT_EQ(code({1}, {-std::numeric_limits<float>::infinity()}), Errc::protocol);
  EXPECT_EQ(code(std::vector<std::uint32_t>(256 * 21 + 1), std::vector<float>(256 * 21 + 1)),
            Errc::protocol);
}

TEST(VerdictRangeTest, RejectsLargeReceipt) {
  const auto code = [](std::size_t bytes) {
    flatbuffers::FlatBufferBuilder b;
    const auto receipt = b.CreateVector(std::vector<std::uint8_t>(bytes));
    flat::VerdictBuilder verdict(b);
    verdict.add_length(9);
    verdict.add_receipt(receipt);
    return code_of(Kind::verdict, b, verdict.Finish());
  };
  EXPECT_EQ(code(kReceiptBytesMax), Errc::cancelled);
  EXPECT_EQ(code(kReceiptBytesMax + 1), Errc::protocol);
}

TEST(HelloRangeTest, BoundsTexts) {
  const auto code = [](const std::string& agent, const std::string& token) {
    FlatBufferBuilder b;
    return code_of(Kind::hello, b, flat::CreateHelloDirect(b, 1, 1, agent.c_str(), token.c_str()));
  };
  EXPECT_EQ(code(std::string(kTextBytesMax, 'a'), std::string(kBearerTokenBytesMax, 't')),
            Errc::cancelled);
  EXPECT_EQ(code(std::string(kTextBytesMax + 1, 'a'), ""), Errc::protocol);
  EXPECT_EQ(code("", std::string(kBearerTokenBytesMax + 1, 't')), Errc::protocol);
}

}  // namespace
}  // namespace edgedraft::wire
