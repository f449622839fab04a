#include "shared/protocol/client_protocol.h"

#include <algorithm>
#include <utility>

namespace edgedraft {
namespace {

// Blocks per burst: hides the end of an answer to within half a second at the usual tick.
constexpr std::uint32_t kPadTogether = 25;

Error faulty_server(std::string what) {
  return {Errc::protocol, "the server violated the protocol: " + std::move(what)};
}

Error not_now(std::string why) {
  return {Errc::protocol, std::move(why)};
}

// True if the fault should be reported to the server, for its log.
bool is_fault_of_peer(Errc code) {
  return code == Errc::protocol || code == Errc::bad_message || code == Errc::frame_too_large ||
         code == Errc::version;
}

}  // namespace

ClientProtocol::ClientProtocol(ClientProtocolOptions options, Instant now)
    : channel_(options.channel, now),
      vocabulary_count_(options.vocabulary_count),
      pad_tick_ms_(options.hello.pad_tick_ms),
      asks_newest_row_(options.hello.newest_row) {
  channel_.send(std::move(options.hello));
}

Result<void> ClientProtocol::receive(Instant now, ByteView bytes) {
  channel_.receive(now, bytes);
  for (;;) {
    Result<std::optional<wire::Message>> message = channel_.next_message();
    if (message && !*message) return boost::system::in_place_value;
    Result<void> handled = message ? handle(*std::move(*message)) : Result<void>(message.error());
    if (handled) continue;
    if (!told_by_server_ && is_fault_of_peer(handled.error().code)) {
      channel_.send(
          wire::ErrorReport{.code = handled.error().code, .message = handled.error().message});
    }
    return handled;
  }
}

Result<void> ClientProtocol::tick(Instant now) {
  return channel_.tick(now, awaits());
}

std::optional<ClientEvent> ClientProtocol::next_event() {
  if (events_.empty()) return std::nullopt;
  ClientEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

Result<void> ClientProtocol::handle(wire::Message message) {
  if (auto* report = std::get_if<wire::ErrorReport>(&message)) return on_error(*report);
  if (auto* close = std::get_if<wire::Close>(&message)) {
    return Error{Errc::link_down, "the server closed the connection: " + close->reason};
  }
  if (auto* welcome = std::get_if<wire::Welcome>(&message)) return on_welcome(std::move(*welcome));
  if (!welcome_) return faulty_server("a message before the sign-in was complete");
  if (auto* verdict = std::get_if<wire::Verdict>(&message)) return on_verdict(std::move(*verdict));
  if (auto* chunk = std::get_if<wire::Activations>(&message)) return on_activations(*chunk);
  if (const auto* ping = std::get_if<wire::Ping>(&message)) {
    if (pending_ && !running() && ping->reading == pending_->round)
      events_.push_back(RequestRead{});
    return boost::system::in_place_value;
  }
  return faulty_server("unexpected " + std::string(to_string(wire::kind_of(message))));
}

Result<void> ClientProtocol::on_welcome(wire::Welcome welcome) {
  if (welcome_) return faulty_server("a second welcome");
  if (welcome.version < kProtocolVersionMin || welcome.version > kProtocolVersion) {
    return Error{Errc::version, "the server chose protocol version " +
                                    std::to_string(welcome.version) + "; this program supports " +
                                    std::to_string(kProtocolVersionMin) + " to " +
                                    std::to_string(kProtocolVersion)};
  }
  if (welcome.newest_row && !asks_newest_row_) {
    return faulty_server("activations of only the newest position, which were not requested");
  }
  layout_ = ActivationLayout(welcome.scale_groups);
  session_ = welcome.session;
  const std::uint64_t payload_bytes_max =
      activation_payload_bytes_max(layout_, kDraftNodesMax + 1) + kLogprobsBytesMax;
  channel_.open(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      payload_bytes_max, kHandshakePayloadBytesMax, kFramePayloadBytesMax)));
  if (pad_tick_ms_ > 0) {
    if (welcome.pad_bytes_up == 0) {
      return Error{Errc::mismatch, "the server does not support padding: connect without --pad"};
    }
    channel_.pad({.tick = std::chrono::milliseconds(pad_tick_ms_),
                  .bytes = welcome.pad_bytes_up,
                  .together = kPadTogether},
                 Duration::zero());
  }
  welcome_ = welcome;
  events_.push_back(Welcomed{std::move(welcome)});
  return boost::system::in_place_value;
}

Result<void> ClientProtocol::check_verdict(const wire::Verdict& verdict) const {
  if (!in_vocabulary(verdict.next) ||
      !std::ranges::all_of(verdict.tokens, [&](std::uint32_t t) { return in_vocabulary(t); })) {
    return faulty_server("a token outside the vocabulary");
  }
  if (auto checked = check_logprobs(verdict); !checked) return checked;
  if (running()) {
    if (auto checked = check_run_verdict(verdict); !checked) return checked;
  } else if (!verdict.tokens.empty()) {
    return faulty_server("tokens of a run that has not started");
  }
  const std::uint32_t provisional = pending_->provisional_count;
  if (verdict.accepted_count > provisional ||
      (pending_->all_accepted && verdict.accepted_count != provisional)) {
    return faulty_server("an invalid accepted count");
  }
  const std::uint64_t length = std::uint64_t{pending_->base_length} + pending_->given_count +
                               verdict.accepted_count + verdict.tokens.size() + 1;
  if (verdict.length != length) return faulty_server("an inconsistent length");
  if (length > welcome_->context_count) return faulty_server("more tokens than its context holds");
  return boost::system::in_place_value;
}

Result<void> ClientProtocol::check_logprobs(const wire::Verdict& verdict) const {
  if (verdict.logprobs.empty()) return boost::system::in_place_value;
  // Tokens kept without verification have no log probability.
  const std::size_t chosen = pending_->all_accepted ? 0 : verdict.accepted_count;
  const std::size_t new_count = chosen + verdict.tokens.size() + 1;
  if (logprobs_ == 0 || verdict.logprobs.size() % logprobs_ != 0 ||
      verdict.logprobs.size() / logprobs_ > new_count) {
    return faulty_server("log probabilities that were not requested");
  }
  if (!std::ranges::all_of(verdict.logprobs,
                           [&](const Logprob& logprob) { return in_vocabulary(logprob.token); })) {
    return faulty_server("log probabilities of a token outside the vocabulary");
  }
  return boost::system::in_place_value;
}

Result<void> ClientProtocol::check_run_verdict(const wire::Verdict& verdict) const {
  if (verdict.length > pending_->run.credit) {
    return faulty_server("more tokens than its credit allows");
  }
  if (!in_lockstep()) return boost::system::in_place_value;
  if (pending_->marked_length != pending_->base_length) {
    return faulty_server("a verdict before the hints were complete");
  }
  if (verdict.tokens.size() > pending_->nodes) return faulty_server("more tokens than hints");
  return boost::system::in_place_value;
}

Result<void> ClientProtocol::on_verdict(wire::Verdict verdict) {
  if (verdict.round <= cancelled_round_) return boost::system::in_place_value;
  if (!pending_ || verdict.round != pending_->round) return faulty_server("unexpected verdict");
  if (auto checked = check_verdict(verdict); !checked) return checked;

  VerdictReceived event{.to = pending_->to, .verdict = {}, .rows = {}};
  if (in_lockstep() && pending_->run.rows) {
    const std::uint32_t count = verdict_rows(verdict.tokens.size(), welcome_->newest_row);
    Result<std::vector<float>> rows = dequantize_rows(layout_, count, verdict.activations);
    if (!rows) return rows.error();
    channel_.count_activations(verdict.activations.size(), verdict.activations.size());
    verdict.activations.clear();
    event.rows_first = verdict.length - 1 - count;
    event.rows = *std::move(rows);
  } else if (!verdict.activations.empty()) {
    return faulty_server("unexpected activations");
  } else if (!running()) {
    const std::uint32_t valid_end = verdict.length - 1;
    missing_ = {
        .round = verdict.round,
        .first = layout_.cols() == 0 ? valid_end : std::min(pending_->activations_from, valid_end),
        .end = valid_end};
    if (pending_->to == VerdictReceived::To::resume) session_ = pending_->session;
    if (pending_->run.rows && pending_->run.hold != wire::Hold::lockstep)
      run_rows_ = {.round = verdict.round, .next = valid_end};
  }
  event.more = pending_->run.credit > 0 && verdict.ending == wire::Ending::none;
  length_ = verdict.length;
  if (event.more) {
    pending_ = Pending{.to = VerdictReceived::To::run,
                       .round = pending_->round,
                       .base_length = length_,
                       .run = pending_->run};
  } else {
    pending_.reset();
  }
  event.verdict = std::move(verdict);
  events_.push_back(std::move(event));
  return boost::system::in_place_value;
}

Result<void> ClientProtocol::on_activations(wire::Activations& chunk) {
  if (chunk.round < missing_.round || chunk.round <= cancelled_round_) {
    return boost::system::in_place_value;  // activations of a cancelled prompt
  }
  const auto of_run = is_of_run(chunk);
  if (!of_run) return of_run.error();
  const Result<Bytes> packed = decompress_activations(layout_, chunk);
  if (!packed) return packed.error();
  Result<std::vector<float>> rows = dequantize_rows(layout_, chunk.count, *packed);
  if (!rows) return rows.error();
  channel_.count_activations(packed->size(), chunk.data.size());
  if (*of_run) {
    run_rows_.next = chunk.first + chunk.count;
  } else {
    missing_.end = chunk.first;
  }
  events_.push_back(ActivationsReceived{.first = chunk.first,
                                        .count = chunk.count,
                                        .complete = missing_.end == missing_.first,
                                        .of_run = *of_run,
                                        .rows = *std::move(rows)});
  return boost::system::in_place_value;
}

Result<bool> ClientProtocol::is_of_run(const wire::Activations& chunk) const {
  const std::uint64_t end = std::uint64_t{chunk.first} + chunk.count;
  // The last token's row has not been computed yet.
  const bool in_order =
      welcome_->newest_row ? chunk.first >= run_rows_.next : chunk.first == run_rows_.next;
  const bool is_next_of_run = chunk.round == run_rows_.round && in_order;
  if (is_next_of_run && end < length_) return true;
  if (chunk.round == missing_.round && chunk.first >= missing_.first && end == missing_.end) {
    return false;
  }
  return faulty_server("activations out of order");
}

Result<void> ClientProtocol::on_error(const wire::ErrorReport& report) {
  if (report.fatal) {
    told_by_server_ = true;
    return Error{report.code, report.message};
  }
  if (report.round <= cancelled_round_) return boost::system::in_place_value;
  if (!pending_ || report.round != pending_->round) {
    return faulty_server("an error for an unknown request");
  }
  if (pending_->to == VerdictReceived::To::resume) length_ = 0;
  pending_.reset();
  events_.push_back(RequestRefused{{report.code, report.message}});
  return boost::system::in_place_value;
}

Result<void> ClientProtocol::may_request() const {
  if (!welcome_) return Error{Errc::link_down, "not signed in to the server yet"};
  if (pending_ && !running()) return not_now("a request is already in flight");
  return boost::system::in_place_value;
}

Result<void> ClientProtocol::check_context(std::uint64_t token_count) const {
  if (token_count < welcome_->context_count) return boost::system::in_place_value;
  return Error{Errc::context_full,
               std::to_string(token_count) +
                   " tokens leave no room for an answer in the server's "
                   "context of " +
                   std::to_string(welcome_->context_count) +
                   " tokens: shorten the text, or start the server with a larger --ctx"};
}

Result<void> ClientProtocol::prefill(wire::OutgoingPrefill request) {
  if (auto allowed = may_request(); !allowed) return allowed;
  const std::uint64_t count = std::uint64_t{request.text.base_count()} + request.text.count();
  if (request.text.base_count() > length_) {
    return not_now("the prompt builds on more tokens than the session holds");
  }
  if (request.provisional_count > request.text.count() || count <= request.provisional_count ||
      request.activations_from > count) {
    return not_now("the prompt's lengths contradict each other");
  }
  if (auto fits = check_context(count); !fits) return fits;
  request.round = last_round_ + 1;
  start({.to = VerdictReceived::To::prefill,
         .round = request.round,
         .base_length = request.text.base_count(),
         .given_count = request.text.count() - request.provisional_count,
         .provisional_count = request.provisional_count,
         .all_accepted = request.policy == wire::ResyncPolicy::keep,
         .activations_from = request.activations_from,
         .session = {},
         .run = request.run});
  channel_.send(std::move(request));
  return boost::system::in_place_value;
}

Result<void> ClientProtocol::resume(wire::OutgoingResume request) {
  if (auto allowed = may_request(); !allowed) return allowed;
  const std::uint64_t count = std::uint64_t{request.text.base_count()} + request.text.count();
  if (request.text.base_count() == 0 || request.activations_from > count) {
    return not_now("the lengths of the resume request contradict each other");
  }
  if (auto fits = check_context(count); !fits) return fits;
  request.round = last_round_ + 1;
  start({.to = VerdictReceived::To::resume,
         .round = request.round,
         .base_length = request.text.base_count(),
         .given_count = 0,
         .provisional_count = request.text.count(),
         .all_accepted = request.policy == wire::ResyncPolicy::keep,
         .activations_from = request.activations_from,
         .session = request.session,
         .run = request.run});
  channel_.send(std::move(request));
  return boost::system::in_place_value;
}

Result<void> ClientProtocol::hints(wire::OutgoingHints hints) {
  if (!welcome_) return Error{Errc::link_down, "not signed in to the server yet"};
  if (hints.hints.nodes().size() > kHintsMax) return not_now("too many hints for a message");
  if (!pending_) return boost::system::in_place_value;
  if (pending_->run.credit == 0) return not_now("no run has started");
  if (hints.complete) {
    const bool is_due =
        in_lockstep() && pending_->marked_length != length_ && hints.hints.position() == length_;
    if (!is_due) return not_now("the server is not waiting for these hints");
    if (hints.hints.nodes().size() > welcome_->nodes_max) {
      return not_now("the server verifies " + std::to_string(welcome_->nodes_max) +
                     " nodes at most");
    }
    pending_->marked_length = length_;
    pending_->nodes = static_cast<std::uint32_t>(hints.hints.nodes().size());
  }
  pending_->run.credit = std::max(pending_->run.credit, hints.credit);
  hints.round = last_round_;
  channel_.send(std::move(hints));
  return boost::system::in_place_value;
}

void ClientProtocol::start(Pending pending) {
  // Ignore messages of the run that are still in flight.
  if (running()) cancelled_round_ = last_round_;
  last_round_ = pending.round;
  // A new prompt ends the activations of the previous one.
  missing_ = {.round = pending.round};
  run_rows_ = {};
  logprobs_ = pending.run.logprobs;
  pending_ = std::move(pending);
}

void ClientProtocol::cancel() {
  if (!welcome_ || last_round_ == cancelled_round_) return;
  channel_.send(wire::Cancel{last_round_});
  cancelled_round_ = last_round_;
  missing_ = {};
  run_rows_ = {};
  if (!pending_) return;
  if (pending_->to == VerdictReceived::To::prefill) length_ = pending_->base_length;
  if (pending_->to == VerdictReceived::To::resume) length_ = 0;
  pending_.reset();
}

void ClientProtocol::close(std::string reason) {
  channel_.send(wire::Close{std::move(reason)});
}

}  // namespace edgedraft
