#include "client/conformance/session.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "client/conformance/check.h"
#include "shared/base/check.h"
#include "shared/protocol/outgoing.h"

namespace edgedraft::conformance {
namespace {

TaintLedger ledger_of(const Tokens& tokens) {
  TaintLedger ledger;
  for (const std::uint32_t token : tokens) ledger.append(token, Provenance::given);
  return ledger;
}

// Time for a server to report a fault, which needs no pass.
constexpr Duration kFaultPatience = std::chrono::seconds(10);

// Describes a message that a check did not expect.
std::string described(const std::optional<wire::Message>& message, const Connection& connection) {
  if (!message) return connection.ended() ? "the connection ended" : "no answer in time";
  if (const auto* report = std::get_if<wire::ErrorReport>(&*message)) {
    return std::string(report->fatal ? "fatal error " : "error ") +
           std::string(to_string(report->code)) + ": " + report->message;
  }
  return "received " + std::string(to_string(wire::kind_of(*message)));
}

std::uint32_t round_of(const wire::Message& message) {
  if (const auto* verdict = std::get_if<wire::Verdict>(&message)) return verdict->round;
  if (const auto* report = std::get_if<wire::ErrorReport>(&message)) return report->round;
  return 0;
}

}  // namespace

Tokens first_of(const Tokens& tokens, std::size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)};
}

Bytes frame_of(std::uint16_t kind, ByteView payload, std::uint16_t version) {
  Bytes frame(kFrameHeaderBytes);
  encode_frame_header({.version = version,
                       .kind = kind,
                       .payload_bytes = static_cast<std::uint32_t>(payload.size())},
                      std::span(frame).first<kFrameHeaderBytes>());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

Bytes patched(Bytes frame, std::uint32_t from, std::uint32_t to) {
  std::size_t count = 0;
  for (std::size_t at = kFrameHeaderBytes; at + sizeof from <= frame.size(); at += sizeof from) {
    if (load_le<std::uint32_t>(frame.data() + at) != from) continue;
    store_le(frame.data() + at, to);
    ++count;
  }
  EDGEDRAFT_CHECK(count == 1);
  return frame;
}

wire::Hello hello_for(const ServerAddress& server) {
  return {.agent = "edgedraft-conformance " EDGEDRAFT_VERSION, .token = server.token};
}

std::vector<HintNode> chain(const Tokens& tokens) {
  std::vector<HintNode> nodes;
  for (const std::uint32_t token : tokens) {
    nodes.push_back({.token = token, .distance = static_cast<std::uint16_t>(!nodes.empty())});
  }
  return nodes;
}

Session::Session(const ServerAddress& server, std::uint32_t vocabulary_count)
    : vocabulary_count_(vocabulary_count) {
  auto opened = Connection::open(server);
  if (!opened) throw CheckFailed(opened.error().message);
  connection_ = *std::move(opened);
  connection_->send(wire::encode(hello_for(server)));
  auto answer = connection_->next(kPatience);
  auto* const welcome = answer ? std::get_if<wire::Welcome>(&*answer) : nullptr;
  require(welcome != nullptr, [&] { return "no Welcome: " + described(answer, *connection_); });
  welcome_ = std::move(*welcome);
}

Session::~Session() {
  if (connection_ && !connection_->ended()) connection_->send(wire::encode(wire::Close{"done"}));
}

Bytes Session::prefill_frame(const Tokens& text, const Terms& terms, std::uint32_t base) const {
  const auto count = static_cast<std::uint32_t>(text.size());
  return wire::encode(wire::OutgoingPrefill{.round = round_ + 1,
                                            .text = SafePrefix(ledger_of(text), base, count - base),
                                            .provisional_count = terms.provisional_count,
                                            .policy = terms.policy,
                                            .activations_from = count,
                                            .parameters = SafeParameters(terms.sampling),
                                            .run = terms.run});
}

void Session::prefill(const Tokens& text, const Terms& terms, std::uint32_t base) {
  connection_->send(prefill_frame(text, terms, base));
  begin(text, terms);
}

void Session::resume(const wire::SessionId& id, const Tokens& verified, const Tokens& offline,
                     const Terms& terms) {
  Tokens text = verified;
  text.insert(text.end(), offline.begin(), offline.end());
  const auto base = static_cast<std::uint32_t>(verified.size());
  const auto count = static_cast<std::uint32_t>(offline.size());
  connection_->send(
      wire::encode(wire::OutgoingResume{.round = round_ + 1,
                                        .session = id,
                                        .text = SafePrefix(ledger_of(text), base, count),
                                        .policy = terms.policy,
                                        .activations_from = base + count,
                                        .parameters = SafeParameters(terms.sampling),
                                        .run = terms.run}));
  Terms all = terms;
  all.provisional_count = count;
  begin(std::move(text), all);
}

void Session::begin(Tokens text, const Terms& terms) {
  ++round_;
  text_ = std::move(text);
  terms_ = terms;
  credit_ = terms.run.credit;
  is_answered_ = false;
  ending_ = wire::Ending::none;
}

Bytes Session::hints_frame(const Draft& draft, std::uint32_t credit, wire::Hold hold) const {
  return wire::encode(wire::OutgoingHints{
      .round = round_,
      .credit = credit,
      .hold = hold,
      .first = draft.nodes.empty() ? 0 : draft.first,
      .hints = SafeHints(ledger_of(draft.behind.empty() ? text_ : draft.behind), draft.nodes)});
}

void Session::hints(const Draft& draft, std::uint32_t credit, wire::Hold hold) {
  connection_->send(hints_frame(draft, credit, hold));
  credit_ = std::max(credit_, credit);
}

Bytes Session::complete_frame(const Tokens& behind, const std::vector<HintNode>& nodes) const {
  return wire::encode(wire::OutgoingHints{
      .round = round_, .complete = true, .hints = SafeHints(ledger_of(behind), nodes)});
}

void Session::complete(const std::vector<HintNode>& nodes) {
  connection_->send(complete_frame(text_, nodes));
}

void Session::cancel() {
  connection_->send(wire::encode(wire::Cancel{round_}));
}

// Drops messages of earlier rounds, which may still be on their way.
std::optional<wire::Message> Session::reply(Duration patience) {
  const Instant deadline = Clock::now() + patience;
  for (;;) {
    auto message = connection_->next(deadline - Clock::now());
    if (!message) return message;
    const std::uint32_t round = round_of(*message);
    if (round == 0 || round >= round_) return message;
  }
}

std::optional<wire::ErrorReport> Session::answered() {
  auto message = reply(kPatience);
  const auto* const report = message ? std::get_if<wire::ErrorReport>(&*message) : nullptr;
  if (report != nullptr && !report->fatal && report->round == round_) return *report;
  const auto* const verdict = message ? std::get_if<wire::Verdict>(&*message) : nullptr;
  require(verdict != nullptr, [&] { return "no verdict: " + described(message, *connection_); });
  check(*verdict);
  return std::nullopt;
}

wire::Verdict Session::verdict() {
  auto message = reply(kPatience);
  const auto* const verdict = message ? std::get_if<wire::Verdict>(&*message) : nullptr;
  require(verdict != nullptr, [&] { return "no verdict: " + described(message, *connection_); });
  check(*verdict);
  return *verdict;
}

void Session::check(const wire::Verdict& verdict) {
  const auto said = [&](const char* field, std::uint64_t value, std::uint64_t expected) {
    return std::string("a verdict's `") + field + "` is " + std::to_string(value) + ", expected " +
           std::to_string(expected);
  };
  require(verdict.round == round_, [&] { return said("round", verdict.round, round_); });
  require(ending_ == wire::Ending::none, "a verdict after the answer's end");
  if (!is_answered_) {
    require(verdict.tokens.empty(), "the answer to a request has `tokens`");
    require(verdict.accepted_count <= terms_.provisional_count,
            "`accepted_count` is above `provisional_count`");
    const bool keeps = terms_.policy == wire::ResyncPolicy::keep;
    text_.resize(text_.size() - terms_.provisional_count +
                 (keeps ? terms_.provisional_count : verdict.accepted_count));
  } else {
    require(terms_.run.credit > 0, "a second verdict on a request without credit");
    require(verdict.accepted_count == 0, "a verdict of a run has `accepted_count`");
  }
  text_.insert(text_.end(), verdict.tokens.begin(), verdict.tokens.end());
  text_.push_back(verdict.next);
  require(verdict.length == text_.size(),
          [&] { return said("length", verdict.length, text_.size()); });
  require(!is_answered_ || verdict.length <= credit_, "a verdict exceeds the credit");
  for (std::size_t i = text_.size() - verdict.tokens.size() - 1; i < text_.size(); ++i) {
    require(text_[i] < vocabulary_count_, "a verdict's token is beyond the vocabulary");
  }
  is_answered_ = true;
  ending_ = verdict.ending;
}

void Session::run_to(std::uint32_t length) {
  while (!is_answered_ || (this->length() < length && ending_ == wire::Ending::none)) verdict();
}

wire::ErrorReport Session::refusal() {
  auto message = reply(kPatience);
  const auto* const report = message ? std::get_if<wire::ErrorReport>(&*message) : nullptr;
  require(report != nullptr && !report->fatal && report->round == round_,
          [&] { return "no refusal of the request: " + described(message, *connection_); });
  return *report;
}

void Session::expect_fatal(Errc code) {
  conformance::expect_fatal(*connection_, code);
}

void Session::expect_silence(const char* when) {
  const auto message = reply(kSilence);
  require(!message && !connection_->ended(),
          [&] { return described(message, *connection_) + " " + when; });
}

void expect_fatal(Connection& connection, Errc code) {
  std::optional<wire::Message> message;
  const wire::ErrorReport* report = nullptr;
  do {
    message = connection.next(kFaultPatience);
    report = message ? std::get_if<wire::ErrorReport>(&*message) : nullptr;
    // Verdicts may have been on their way.
  } while (message && std::holds_alternative<wire::Verdict>(*message));
  require(report != nullptr && report->fatal && report->code == code, [&] {
    return "expected fatal error " + std::string(to_string(code)) + ", but " +
           described(message, connection);
  });
  message = connection.next(kFaultPatience);
  require(!message && connection.ended(), "the connection stays open after a fatal error");
}

}  // namespace edgedraft::conformance
