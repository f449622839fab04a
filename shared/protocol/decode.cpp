#include <flatbuffers/flatbuffers.h>
#include <algorithm>
#include <cmath>
#include <limits>

#include "messages_generated.h"
#include "shared/protocol/error_code.h"
#include "shared/protocol/message.h"
#include "shared/protocol/replica_name.h"

namespace edgedraft::wire {

namespace {

using flatbuffers::String;
using flatbuffers::Vector;

constexpr std::uint32_t kVerifierDepthMax = 8;
constexpr std::uint32_t kVerifierTablesMax = 64;
constexpr float kTemperatureMax = 100.0f;

Error bad_message(std::string what) {
  return {Errc::bad_message, "bad message: " + std::move(what)};
}

Error out_of_range(std::string what) {
  return {Errc::protocol, "value out of range: " + std::move(what)};
}

// Records the first fault of a message, so that its reader is a plain list of fields.
class Checker {
 public:
  void require(bool condition, Errc code, std::string_view what) {
    if (condition || error_) return;
    error_ =
        code == Errc::protocol ? out_of_range(std::string(what)) : bad_message(std::string(what));
  }
  bool failed() const { return error_.has_value(); }
  void in_range(bool condition, std::string_view what) { require(condition, Errc::protocol, what); }

  std::string text(const String* from, std::uint32_t bytes_max, std::string_view what) {
    if (!from) return {};
    in_range(from->size() <= bytes_max, what);
    return error_ ? std::string() : from->str();
  }
  std::string text(const String* from, std::string_view what) {
    return text(from, kTextBytesMax, what);
  }

  std::optional<Digest> optional_digest(const Vector<std::uint8_t>* from, std::string_view what) {
    if (!from || from->size() == 0) return std::nullopt;
    return fixed<Digest>(from, what);
  }

  // Exactly as many bytes as T has.
  template <class T>
  T fixed(const Vector<std::uint8_t>* from, std::string_view what) {
    T value{};
    require(from && from->size() == value.size(), Errc::bad_message, what);
    if (!error_) std::memcpy(value.data(), from->data(), value.size());
    return value;
  }

  Bytes bytes(const Vector<std::uint8_t>* from) {
    if (!from || from->size() == 0) return {};
    const auto* begin = reinterpret_cast<const std::byte*>(from->data());
    return Bytes(begin, begin + from->size());
  }

  std::vector<std::uint32_t> tokens(const Vector<std::uint32_t>* from) {
    if (!from) return {};
    in_range(from->size() <= kContextCountMax, "number of tokens");
    if (error_) return {};
    std::vector<std::uint32_t> ids(from->begin(), from->end());
    in_range(std::all_of(ids.begin(), ids.end(), [](std::uint32_t t) { return t < kTokenIdEnd; }),
             "token id");
    return ids;
  }

  template <class Enum>
  Enum enumeration(std::uint8_t value, Enum last, std::string_view what) {
    require(value <= static_cast<std::uint8_t>(last), Errc::bad_message, what);
    return error_ ? Enum{} : static_cast<Enum>(value);
  }

  template <class Request>
  SamplingParams sampling(const Request& request) {
    const flat::Sampling* const from = request.sampling();
    require(from != nullptr, Errc::bad_message, "sampling is missing");
    if (error_) return {};
    const SamplingParams s{.temperature = from->temperature(),
                           .top_k = from->top_k(),
                           .top_p = from->top_p(),
                           .min_p = from->min_p(),
                           .seed = from->seed()};
    // Comparisons are false for NaN.
    in_range(s.temperature >= 0 && s.temperature <= kTemperatureMax, "temperature");
    in_range(s.top_p > 0 && s.top_p <= 1, "top_p");
    in_range(s.min_p >= 0 && s.min_p <= 1, "min_p");
    return s;
  }

  Result<Message> result(Message message) {
    if (error_) return *std::move(error_);
    return message;
  }

 private:
  std::optional<Error> error_;
};

Result<Message> read(const flat::Hello& m) {
  Checker c;
  c.in_range(m.version_min() <= m.version_max(), "versions");
  c.in_range(m.pad_tick_ms() == 0 ||
                 (m.pad_tick_ms() >= kPadTickMsMin && m.pad_tick_ms() <= kPadTickMsMax),
             "pad_tick_ms");
  return c.result(Hello{
      .version_min = m.version_min(),
      .version_max = m.version_max(),
      .agent = c.text(m.agent(), "agent"),
      .token = c.text(m.token(), kBearerTokenBytesMax, "token"),
      .target = c.optional_digest(m.target(), "target fingerprint"),
      .tokenizer = c.optional_digest(m.tokenizer(), "tokenizer fingerprint"),
      .drafter = c.optional_digest(m.drafter(), "drafter fingerprint"),
      .drafter_name = c.text(m.drafter_name(), "drafter name"),
      .tap = c.text(m.tap(), "tap"),
      .pad_tick_ms = m.pad_tick_ms(),
      .newest_row = m.newest_row(),
  });
}

Result<Message> read(const flat::Welcome& m) {
  Checker c;
  c.in_range(m.context_count() >= 1 && m.context_count() <= kContextCountMax, "context_count");
  c.in_range(m.nodes_max() <= kDraftNodesMax, "nodes_max");
  Welcome welcome{
      .version = m.version(),
      .session = c.fixed<SessionId>(m.session(), "session id"),
      .agent = c.text(m.agent(), "agent"),
      .model = c.text(m.model(), "model"),
      .context_count = m.context_count(),
      .nodes_max = m.nodes_max(),
      .scale_groups = {},
      .hint_nodes_max = m.hint_nodes_max(),
      .pad_bytes_up = m.pad_bytes_up(),
      .pad_bytes_down = m.pad_bytes_down(),
      .newest_row = m.newest_row(),
      .pass_times = {},
      .replica = c.text(m.replica(), kReplicaBytesMax, "replica"),
      .arithmetic = c.text(m.arithmetic(), "arithmetic"),
      .target = c.optional_digest(m.target(), "target fingerprint"),
  };
  c.in_range(welcome.replica.empty() || is_replica_name(welcome.replica), "replica");
  c.in_range(welcome.hint_nodes_max >= 1, "hint_nodes_max");
  const auto is_block = [](std::uint32_t bytes) {
    return bytes >= kPadBlockBytesMin && bytes <= kPadBlockBytesMax;
  };
  c.in_range((welcome.pad_bytes_up == 0 && welcome.pad_bytes_down == 0) ||
                 (is_block(welcome.pad_bytes_up) && is_block(welcome.pad_bytes_down)),
             "size of padded blocks");
  if (const auto* groups = m.scale_groups()) {
    c.in_range(groups->size() <= kScaleGroupsMax, "number of scale groups");
    std::uint64_t values = 0;
    for (const std::uint32_t group : *groups) {
      c.in_range(group > 0, "scale group");
      values += group;
    }
    c.in_range(values <= kRowValuesMax, "values of a row");
    welcome.scale_groups.assign(groups->begin(), groups->end());
  }
  if (const auto* passes = m.pass_times()) {
    c.in_range(passes->size() <= kPassTimesMax, "number of pass times");
    std::uint32_t rows = 0;
    for (const flat::PassTime* pass : *passes) {
      c.in_range(
          pass->rows() > rows && pass->rows() <= kDraftNodesMax + 1 && pass->microseconds() > 0,
          "pass time");
      rows = pass->rows();
      welcome.pass_times.push_back({.rows = rows, .microseconds = pass->microseconds()});
    }
  }
  return c.result(std::move(welcome));
}

// The constraints of a Prefill or Resume.
template <class Table>
Constraints constraints(Checker& c, const Table& m) {
  Constraints constraints{.answer_begin = m.answer_begin(),
                          .presence_penalty = m.presence_penalty(),
                          .frequency_penalty = m.frequency_penalty()};
  c.in_range(constraints.answer_begin <= kContextCountMax, "answer_begin");
  // Comparisons are false for NaN.
  c.in_range(std::abs(m.presence_penalty()) <= kBiasMax, "presence_penalty");
  c.in_range(std::abs(m.frequency_penalty()) <= kBiasMax, "frequency_penalty");
  if (const auto* stops = m.stop()) {
    c.in_range(stops->size() <= kStopsMax, "number of stops");
    for (std::uint32_t i = 0; i < stops->size() && !c.failed(); ++i) {
      constraints.stops.push_back(c.text(stops->Get(i), kStopBytesMax, "bytes of a stop"));
      c.in_range(!constraints.stops.back().empty(), "an empty stop");
    }
  }
  constraints.grammar = c.text(m.grammar(), kGrammarBytesMax, "bytes of the grammar");
  const std::size_t biases = m.biases() ? m.biases()->size() : 0;
  c.in_range(biases <= kBiasesMax, "number of biases");
  const std::vector<std::uint32_t> tokens = c.tokens(m.bias_tokens());
  c.in_range(tokens.size() == biases, "number of biased tokens");
  for (std::uint32_t i = 0; i < biases && !c.failed(); ++i) {
    const float bias = m.biases()->Get(i);
    c.in_range(std::abs(bias) <= kBiasMax, "bias");
    constraints.biases.push_back({.token = tokens[i], .bias = bias});
  }
  return constraints;
}

template <class Table>
RunTerms run_terms(Checker& c, const Table& m) {
  c.in_range(m.credit() <= kContextCountMax, "credit");
  c.in_range(m.logprobs() <= kLogprobsMax, "logprobs");
  return {.credit = m.credit(),
          .rows = m.verdict_rows(),
          .hold = c.enumeration(m.hold(), Hold::lockstep, "hold"),
          .logprobs = m.logprobs()};
}

Result<Message> read(const flat::Prefill& m) {
  Checker c;
  Prefill prefill{
      .round = m.round(),
      .base_length = m.base_length(),
      .tokens = c.tokens(m.tokens()),
      .provisional_count = m.provisional_count(),
      .policy = c.enumeration(m.policy(), ResyncPolicy::keep, "policy"),
      .activations_from = m.activations_from(),
      .sampling = c.sampling(m),
      .constraints = constraints(c, m),
      .run = run_terms(c, m),
      .receipt = m.receipt(),
  };
  c.in_range(prefill.base_length <= kContextCountMax, "base_length");
  c.in_range(prefill.provisional_count <= prefill.tokens.size(), "provisional_count");
  // Use 64 bits: the sum must not wrap around.
  c.in_range(std::uint64_t{prefill.base_length} + prefill.tokens.size() > prefill.provisional_count,
             "a prompt needs a token that is not provisional");
  c.in_range(prefill.activations_from <= std::uint64_t{prefill.base_length} + prefill.tokens.size(),
             "activations_from");
  return c.result(std::move(prefill));
}

Result<Message> read(const flat::Resume& m) {
  Checker c;
  c.in_range(m.verified_length() >= 1 && m.verified_length() <= kContextCountMax,
             "verified_length");
  Resume resume{
      .round = m.round(),
      .session = c.fixed<SessionId>(m.session(), "session id"),
      .verified_length = m.verified_length(),
      .verified_hash = c.fixed<Digest>(m.verified_hash(), "hash of the verified tokens"),
      .tokens = c.tokens(m.tokens()),
      .policy = c.enumeration(m.policy(), ResyncPolicy::keep, "policy"),
      .activations_from = m.activations_from(),
      .sampling = c.sampling(m),
      .constraints = constraints(c, m),
      .run = run_terms(c, m),
  };
  c.in_range(
      resume.activations_from <= std::uint64_t{resume.verified_length} + resume.tokens.size(),
      "activations_from");
  return c.result(std::move(resume));
}

Result<Message> read(const flat::Activations& m) {
  Checker c;
  // Packed rows expand many times.
  c.in_range(m.count() >= 1 && m.count() <= kChunkRowsMax, "count of rows");
  c.in_range(m.first() <= kContextCountMax, "first row");
  return c.result(Activations{
      .round = m.round(),
      .first = m.first(),
      .count = m.count(),
      .codec = c.enumeration(m.codec(), Codec::gzip, "codec"),
      .data = c.bytes(m.data()),
  });
}

Result<Message> read(const flat::Hints& m) {
  Checker c;
  c.in_range(m.credit() <= kContextCountMax, "credit");
  c.in_range(m.position() >= 1 && m.position() <= kContextCountMax, "position");
  const std::uint32_t count = m.nodes() ? m.nodes()->size() : 0;
  const std::uint32_t parent_count = m.parents() ? m.parents()->size() : 0;
  if (m.complete()) {
    c.in_range(count <= kDraftNodesMax, "number of complete hints");
    c.in_range(parent_count == 0 && m.first() == 0 && m.prefix_hash() == 0,
               "ids, parents or hash of complete hints");
  } else {
    c.in_range(count <= kHintsMax, "number of hints");
    c.in_range(count == parent_count, "parents of hints");
    c.in_range(count == 0 || m.first() >= 1, "id of a hint");
    c.in_range(std::uint64_t{m.first()} + count <= std::numeric_limits<std::uint32_t>::max(),
               "id of a hint");
  }
  Hints hints{.round = m.round(),
              .credit = m.credit(),
              .hold = c.enumeration(m.hold(), Hold::lockstep, "hold"),
              .complete = m.complete(),
              .first = m.first(),
              .position = m.position(),
              .prefix_hash = m.prefix_hash()};
  for (std::uint32_t i = 0; i < count && !c.failed(); ++i) {
    const std::uint32_t node = m.nodes()->Get(i);
    const auto high = static_cast<std::uint8_t>(node >> 24);
    const std::uint16_t distance = hints.complete ? high : m.parents()->Get(i);
    const std::uint8_t score = hints.complete ? std::uint8_t{0} : high;
    hints.nodes.push_back({.token = node % kTokenIdEnd, .distance = distance, .score = score});
    // A parent has a smaller id, which rules out cycles and forward references.
    c.in_range(distance < std::uint64_t{std::max(m.first(), 1u)} + i, "parent of a hint");
  }
  return c.result(std::move(hints));
}

std::vector<Logprob> logprobs(Checker& c, const flat::Verdict& m) {
  const std::uint32_t count = m.logprobs() ? m.logprobs()->size() : 0;
  c.in_range(count <= (kDraftNodesMax + 1) * kLogprobsMax, "number of log probabilities");
  c.in_range(count == (m.logprob_tokens() ? m.logprob_tokens()->size() : 0),
             "tokens of log probabilities");
  std::vector<Logprob> logprobs;
  for (std::uint32_t i = 0; i < count && !c.failed(); ++i) {
    logprobs.push_back({.token = m.logprob_tokens()->Get(i), .value = m.logprobs()->Get(i)});
    c.in_range(logprobs[i].token < kTokenIdEnd, "token of a log probability");
    // False for NaN.
    c.in_range(
        logprobs[i].value <= 0.0f && logprobs[i].value >= std::numeric_limits<float>::lowest(),
        "log probability");
  }
  return logprobs;
}

Result<Message> read(const flat::Verdict& m) {
  Checker c;
  c.in_range(m.length() >= 1 && m.length() <= kContextCountMax, "length");
  c.in_range(m.next() < kTokenIdEnd, "next token");
  c.in_range(m.accepted_count() <= kContextCountMax, "accepted_count");
  Verdict verdict{
      .round = m.round(),
      .length = m.length(),
      .next = m.next(),
      .accepted_count = m.accepted_count(),
      .tokens = {},
      .ending = c.enumeration(m.ending(), Ending::stop, "ending"),
      .activations = c.bytes(m.activations()),
      .queue_us = m.queue_us(),
      .verify_us = m.verify_us(),
      .held_us = m.held_us(),
      .drafted = m.drafted(),
      .draft_us = m.draft_us(),
      .hinted = m.hinted(),
      .hints_seen = m.hints_seen(),
  };
  if (const auto* tokens = m.tokens()) {
    c.in_range(tokens->size() <= kDraftNodesMax, "number of tokens");
    if (tokens->size() <= kDraftNodesMax) verdict.tokens.assign(tokens->begin(), tokens->end());
    for (const std::uint32_t token : verdict.tokens) c.in_range(token < kTokenIdEnd, "token id");
  }
  c.in_range(verdict.drafted <= kDraftNodesMax, "drafted");
  c.in_range(verdict.hinted <= kDraftNodesMax, "hinted");
  verdict.logprobs = logprobs(c, m);
  verdict.receipt = c.bytes(m.receipt());
  c.in_range(verdict.receipt.size() <= kReceiptBytesMax, "receipt");
  return c.result(std::move(verdict));
}

Result<Message> read(const flat::Ping& m) {
  return Message(Ping{m.nonce(), m.reading()});
}

Result<Message> read(const flat::Pong& m) {
  return Message(Pong{m.nonce()});
}

Result<Message> read(const flat::Cancel& m) {
  return Message(Cancel{m.round()});
}

Result<Message> read(const flat::Close& m) {
  Checker c;
  return c.result(Close{c.text(m.reason(), "reason")});
}

Result<Message> read(const flat::Error& m) {
  Checker c;
  const auto* code = std::find_if(kErrorCodes.begin(), kErrorCodes.end(),
                                  [&](const auto& entry) { return entry.first == m.code(); });
  c.require(code != kErrorCodes.end(), Errc::bad_message, "error code");
  return c.result(ErrorReport{
      .round = m.round(),
      .code = code == kErrorCodes.end() ? Errc::bad_message : code->second,
      .fatal = m.fatal(),
      .message = c.text(m.message(), "error message"),
  });
}

template <class Table>
Result<Message> verify_and_read(ByteView payload) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(payload.data());
  flatbuffers::Verifier verifier(bytes, payload.size(), kVerifierDepthMax, kVerifierTablesMax);
  if (!verifier.VerifyBuffer<Table>(nullptr)) return bad_message("damaged");
  return read(*flatbuffers::GetRoot<Table>(bytes));
}

Result<Message> decode_aligned(std::uint16_t kind, ByteView payload) {
  switch (static_cast<Kind>(kind)) {
    case Kind::hello:
      return verify_and_read<flat::Hello>(payload);
    case Kind::welcome:
      return verify_and_read<flat::Welcome>(payload);
    case Kind::prefill:
      return verify_and_read<flat::Prefill>(payload);
    case Kind::activations:
      return verify_and_read<flat::Activations>(payload);
    case Kind::verdict:
      return verify_and_read<flat::Verdict>(payload);
    case Kind::resume:
      return verify_and_read<flat::Resume>(payload);
    case Kind::ping:
      return verify_and_read<flat::Ping>(payload);
    case Kind::pong:
      return verify_and_read<flat::Pong>(payload);
    case Kind::cancel:
      return verify_and_read<flat::Cancel>(payload);
    case Kind::close:
      return verify_and_read<flat::Close>(payload);
    case Kind::error:
      return verify_and_read<flat::Error>(payload);
    case Kind::hints:
      return verify_and_read<flat::Hints>(payload);
    case Kind::pad:  // not a message
      break;
  }
  return bad_message("unknown kind " + std::to_string(kind));
}

}  // namespace

Result<Message> decode(std::uint16_t kind, ByteView payload) {
  constexpr std::uintptr_t kAlignment = 8;
  if (payload.size() > kFramePayloadBytesMax) return bad_message("too large");
  if (reinterpret_cast<std::uintptr_t>(payload.data()) % kAlignment == 0 && !payload.empty()) {
    return decode_aligned(kind, payload);
  }
  // FlatBuffers reads numbers in place, which requires alignment.
  const Bytes aligned(payload.begin(), payload.end());
  return decode_aligned(kind, aligned);
}

}  // namespace edgedraft::wire
