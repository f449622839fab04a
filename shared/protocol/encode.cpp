#include <flatbuffers/flatbuffers.h>
#include <algorithm>

#include "messages_generated.h"
#include "shared/base/check.h"
#include "shared/protocol/error_code.h"
#include "shared/protocol/frame.h"
#include "shared/protocol/outgoing.h"

namespace edgedraft::wire {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::Vector;

// Null for an empty vector, which omits the field.
Offset<Vector<std::uint8_t>> bytes(FlatBufferBuilder& to, ByteView from) {
  if (from.empty()) return 0;
  return to.CreateVector(reinterpret_cast<const std::uint8_t*>(from.data()), from.size());
}

Offset<Vector<std::uint8_t>> digest(FlatBufferBuilder& to, const std::optional<Digest>& from) {
  return from ? bytes(to, *from) : 0;
}

Offset<Vector<std::uint32_t>> numbers(FlatBufferBuilder& to, std::span<const std::uint32_t> from) {
  if (from.empty()) return 0;
  return to.CreateVector(from.data(), from.size());
}

// Truncates to the receiver's limit, so that a long reason does not cause a protocol error.
Offset<flatbuffers::String> text(FlatBufferBuilder& to, std::string_view from) {
  if (from.empty()) return 0;
  from = from.substr(0, kTextBytesMax);
  return to.CreateString(from.data(), from.size());
}

flat::Sampling sampling_of(const SamplingParams& s) {
  return flat::Sampling(s.seed, s.temperature, s.top_k, s.top_p, s.min_p);
}

struct WrittenConstraints {
  Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> stops;
  Offset<flatbuffers::String> grammar;
  std::uint32_t answer_begin;
  Offset<flatbuffers::Vector<std::uint32_t>> bias_tokens;
  Offset<flatbuffers::Vector<float>> biases;
  float presence_penalty;
  float frequency_penalty;
};

WrittenConstraints write_constraints(FlatBufferBuilder& to, const Constraints& c) {
  WrittenConstraints written{.stops = 0,
                             .grammar = 0,
                             .answer_begin = c.answer_begin,
                             .bias_tokens = 0,
                             .biases = 0,
                             .presence_penalty = c.presence_penalty,
                             .frequency_penalty = c.frequency_penalty};
  if (!c.stops.empty()) written.stops = to.CreateVectorOfStrings(c.stops);
  if (!c.grammar.empty()) written.grammar = to.CreateString(c.grammar);
  if (c.biases.empty()) return written;
  std::vector<std::uint32_t> tokens;
  std::vector<float> biases;
  for (const Constraints::Bias& bias : c.biases) {
    tokens.push_back(bias.token);
    biases.push_back(bias.bias);
  }
  written.bias_tokens = to.CreateVector(tokens);
  written.biases = to.CreateVector(biases);
  return written;
}

std::uint16_t code_of(Errc code) {
  const auto* found = std::find_if(kErrorCodes.begin(), kErrorCodes.end(),
                                   [&](const auto& entry) { return entry.second == code; });
  return found == kErrorCodes.end() ? kErrorCodes.back().first : found->first;
}

struct Writer {
  FlatBufferBuilder& to;

  void operator()(const Hello& m) const {
    const auto agent = text(to, m.agent);
    const auto token = m.token.empty() ? 0 : to.CreateString(m.token);
    const auto target = digest(to, m.target);
    const auto tokenizer = digest(to, m.tokenizer);
    const auto drafter = digest(to, m.drafter);
    const auto name = text(to, m.drafter_name);
    const auto tap = text(to, m.tap);
    to.Finish(flat::CreateHello(to, m.version_min, m.version_max, agent, token, target, tokenizer,
                                drafter, name, tap, m.pad_tick_ms, m.newest_row));
  }

  void operator()(const Welcome& m) const {
    const auto session = bytes(to, m.session);
    const auto agent = text(to, m.agent);
    const auto model = text(to, m.model);
    const auto groups = numbers(to, m.scale_groups);
    std::vector<flat::PassTime> passes;
    for (const PassTime& pass : m.pass_times) passes.emplace_back(pass.rows, pass.microseconds);
    const auto times = passes.empty() ? 0 : to.CreateVectorOfStructs(passes);
    const auto replica = text(to, m.replica);
    const auto arithmetic = text(to, m.arithmetic);
    const auto target = digest(to, m.target);
    to.Finish(flat::CreateWelcome(to, m.version, session, agent, model, m.context_count,
                                  m.nodes_max, groups, m.hint_nodes_max, m.pad_bytes_up,
                                  m.pad_bytes_down, m.newest_row, times, replica, arithmetic,
                                  target));
  }

  void operator()(const OutgoingPrefill& m) const {
    const auto tokens = numbers(to, m.text.tokens());
    const flat::Sampling sampling = sampling_of(m.parameters.sampling());
    const WrittenConstraints c = write_constraints(to, m.parameters.constraints());
    to.Finish(flat::CreatePrefill(to, m.round, m.text.base_count(), tokens, m.provisional_count,
                                  static_cast<std::uint8_t>(m.policy), m.activations_from,
                                  &sampling, m.run.credit, m.run.rows,
                                  static_cast<std::uint8_t>(m.run.hold), c.stops, c.grammar,
                                  c.answer_begin, c.bias_tokens, c.biases, c.presence_penalty,
                                  c.frequency_penalty, m.run.logprobs, m.receipt));
  }

  void operator()(const OutgoingResume& m) const {
    const auto session = bytes(to, m.session);
    const auto hash = bytes(to, m.text.base_hash());
    const auto tokens = numbers(to, m.text.tokens());
    const flat::Sampling sampling = sampling_of(m.parameters.sampling());
    const WrittenConstraints c = write_constraints(to, m.parameters.constraints());
    to.Finish(flat::CreateResume(to, m.round, session, m.text.base_count(), hash, tokens,
                                 static_cast<std::uint8_t>(m.policy), m.activations_from, &sampling,
                                 m.run.credit, m.run.rows, static_cast<std::uint8_t>(m.run.hold),
                                 c.stops, c.grammar, c.answer_begin, c.bias_tokens, c.biases,
                                 c.presence_penalty, c.frequency_penalty, m.run.logprobs));
  }

  void operator()(const Activations& m) const {
    const auto data = bytes(to, m.data);
    to.Finish(flat::CreateActivations(to, m.round, m.first, m.count,
                                      static_cast<std::uint8_t>(m.codec), data));
  }

  void operator()(const OutgoingHints& m) const {
    const std::vector<HintNode>& parts = m.hints.nodes();
    std::vector<std::uint32_t> nodes(parts.size());
    std::vector<std::uint16_t> parents(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EDGEDRAFT_CHECK(parts[i].token < kTokenIdEnd);
      EDGEDRAFT_CHECK(!m.complete || parts[i].distance <= i);
      const std::uint32_t high = m.complete ? parts[i].distance : parts[i].score;
      nodes[i] = parts[i].token | high << 24;
      parents[i] = parts[i].distance;
    }
    const auto vector = numbers(to, nodes);
    const auto distances = parents.empty() || m.complete ? 0 : to.CreateVector(parents);
    to.Finish(flat::CreateHints(to, m.round, m.hints.position(), vector, m.complete, m.credit,
                                static_cast<std::uint8_t>(m.hold), m.complete ? 0 : m.first,
                                m.complete ? 0 : m.hints.prefix_hash(), distances));
  }

  void operator()(const Verdict& m) const {
    const auto tokens = numbers(to, m.tokens);
    const auto activations = bytes(to, m.activations);
    std::vector<std::uint32_t> told_tokens;
    std::vector<float> told;
    for (const Logprob& logprob : m.logprobs) {
      told_tokens.push_back(logprob.token);
      told.push_back(logprob.value);
    }
    const auto logprob_tokens = numbers(to, told_tokens);
    const auto logprobs = told.empty() ? 0 : to.CreateVector(told);
    const auto receipt = bytes(to, m.receipt);
    to.Finish(flat::CreateVerdict(to, m.round, m.length, m.next, m.accepted_count, tokens,
                                  static_cast<std::uint8_t>(m.ending), activations, m.queue_us,
                                  m.verify_us, m.held_us, m.drafted, m.draft_us, m.hinted,
                                  m.hints_seen, logprob_tokens, logprobs, receipt));
  }

  void operator()(const Ping& m) const { to.Finish(flat::CreatePing(to, m.nonce, m.reading)); }
  void operator()(const Pong& m) const { to.Finish(flat::CreatePong(to, m.nonce)); }
  void operator()(const Cancel& m) const { to.Finish(flat::CreateCancel(to, m.round)); }
  void operator()(const Close& m) const {
    const auto reason = text(to, m.reason);
    to.Finish(flat::CreateClose(to, reason));
  }
  void operator()(const ErrorReport& m) const {
    const auto message = text(to, m.message);
    to.Finish(flat::CreateError(to, m.round, code_of(m.code), m.fatal, message));
  }
};

}  // namespace

Bytes encode(const OutgoingMessage& message) {
  FlatBufferBuilder builder(256);
  std::visit(Writer{builder}, message);
  EDGEDRAFT_CHECK(builder.GetSize() <= kFramePayloadBytesMax);

  Bytes frame(kFrameHeaderBytes + builder.GetSize());
  encode_frame_header(
      {.kind = static_cast<std::uint16_t>(kind_of(message)), .payload_bytes = builder.GetSize()},
      std::span(frame).first<kFrameHeaderBytes>());
  std::memcpy(frame.data() + kFrameHeaderBytes, builder.GetBufferPointer(), builder.GetSize());
  return frame;
}

}  // namespace edgedraft::wire
