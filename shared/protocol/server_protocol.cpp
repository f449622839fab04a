#include "shared/protocol/server_protocol.h"

#include <algorithm>
#include <span>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

// Block sizes of a padded connection: hints of a few steps up, a verdict and the rows of two
// positions down.
constexpr std::uint32_t kPadBytesUp = 384;
constexpr std::uint32_t kPadBytesDown = 512;
constexpr std::uint32_t kPadRows = 2;
// Ticks that the server's blocks outlast the client's, so that a late block leaves no gap.
constexpr int kPadFollow = 10;

Error faulty_client(std::string what) {
  return {Errc::protocol, "the client violated the protocol: " + std::move(what)};
}

// A fault of the server, perhaps provoked by a peer: it only ends the connection.
Error at_odds(std::string what) {
  return {Errc::io, "internal error of the server, connect again: " + std::move(what)};
}

Error does_not_read() {
  return {Errc::timed_out, "the client does not read its answers"};
}

}  // namespace

ServerProtocol::ServerProtocol(ServerProtocolOptions options, Instant now)
    : options_(options), channel_(options.channel, now), hints_counted_(now), now_(now) {}

Result<void> ServerProtocol::receive(Instant now, ByteView bytes) {
  if (finished()) return Error{Errc::link_down, "the connection is closing"};
  now_ = now;
  channel_.receive(now, bytes);
  for (;;) {
    Result<std::optional<wire::Message>> message = channel_.next_message();
    if (!message) return faulty(message.error());
    if (!*message) break;
    if (auto handled = handle(*std::move(*message)); !handled) return handled;
  }
  // Mostly refusals: a client that sends more must have read the earlier ones.
  if (channel_.urgent_bytes() > options_.urgent_bytes_max) return faulty(does_not_read());
  return boost::system::in_place_value;
}

Result<void> ServerProtocol::tick(Instant now) {
  if (auto ticked = channel_.tick(now, awaited()); !ticked) return faulty(ticked.error());
  return boost::system::in_place_value;
}

std::optional<ServerEvent> ServerProtocol::next_event() {
  if (events_.empty()) return std::nullopt;
  ServerEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

Error ServerProtocol::faulty(Error error) {
  fail(error);
  return error;
}

Result<void> ServerProtocol::handle(wire::Message message) {
  if (auto* close = std::get_if<wire::Close>(&message)) {
    state_ = State::finished;
    return Error{Errc::link_down, "closed by the client: " + close->reason};
  }
  if (auto* report = std::get_if<wire::ErrorReport>(&message)) {
    state_ = State::finished;
    // The client's code describes a fault of the server; for the server, the link is down.
    return Error{Errc::link_down, "the client reported an error: " + report->message};
  }
  if (auto* hello = std::get_if<wire::Hello>(&message)) return on_hello(std::move(*hello));
  if (state_ != State::ready)
    return faulty(faulty_client("a message before the sign-in was complete"));
  if (auto* prefill = std::get_if<wire::Prefill>(&message)) return on_prefill(std::move(*prefill));
  if (auto* resume = std::get_if<wire::Resume>(&message)) return on_resume(std::move(*resume));
  if (auto* hints = std::get_if<wire::Hints>(&message)) return on_hints(std::move(*hints));
  if (auto* cancel = std::get_if<wire::Cancel>(&message)) return on_cancel(*cancel);
  if (std::holds_alternative<wire::Ping>(message)) return boost::system::in_place_value;
  return faulty(faulty_client("unexpected " + std::string(to_string(wire::kind_of(message)))));
}

Result<void> ServerProtocol::on_hello(wire::Hello hello) {
  if (state_ != State::hello) return faulty(faulty_client("a second hello"));
  const std::uint16_t version = std::min(kProtocolVersion, hello.version_max);
  if (version < std::max(kProtocolVersionMin, hello.version_min)) {
    return faulty({Errc::version, "the client speaks protocol versions " +
                                      std::to_string(hello.version_min) + " to " +
                                      std::to_string(hello.version_max) + ", the server " +
                                      std::to_string(kProtocolVersionMin) + " to " +
                                      std::to_string(kProtocolVersion)});
  }
  version_ = version;
  pad_tick_ms_ = hello.pad_tick_ms;
  state_ = State::deciding;
  events_.push_back(HelloReceived{std::move(hello), version});
  return boost::system::in_place_value;
}

void ServerProtocol::accept(wire::Welcome welcome, std::uint32_t padded_row_bytes) {
  if (finished()) return;  // the client left before the application decided
  EDGEDRAFT_CHECK(state_ == State::deciding);
  EDGEDRAFT_CHECK(welcome.context_count >= 1 && welcome.context_count <= kContextCountMax);
  EDGEDRAFT_CHECK(welcome.nodes_max <= kDraftNodesMax);
  if (welcome.target) target_ = *welcome.target;
  arithmetic_ = welcome.arithmetic;
  context_count_ = welcome.context_count;
  nodes_max_ = welcome.nodes_max;
  welcome.version = version_;
  layout_ = ActivationLayout(welcome.scale_groups);
  newest_row_ = welcome.newest_row;
  padded_row_bytes_ = padded_row_bytes;
  state_ = State::ready;
  // Limit for the constraints of one prompt.
  constexpr std::uint32_t kConstraintBytesMax =
      kGrammarBytesMax + kStopsMax * (kStopBytesMax + 16) + kBiasesMax * 8;
  channel_.open(std::max({kHandshakePayloadBytesMax,
                          context_count_ * 4 + kConstraintBytesMax + kMessageOverheadBytesMax,
                          nodes_max_ * 4 + kMessageOverheadBytesMax}));
  const std::uint32_t row_bytes =
      std::max(static_cast<std::uint32_t>(layout_.row_bytes()), padded_row_bytes);
  if (pad_tick_ms_ > 0) {
    welcome.pad_bytes_up = kPadBytesUp;
    welcome.pad_bytes_down = std::min(kPadBytesDown + kPadRows * row_bytes, kPadBlockBytesMax);
  }
  const std::uint32_t pad_bytes = welcome.pad_bytes_down;
  channel_.send(std::move(welcome));
  if (pad_tick_ms_ > 0) {
    const Duration tick = std::chrono::milliseconds(pad_tick_ms_);
    channel_.pad({.tick = tick, .bytes = pad_bytes}, kPadFollow * tick);
  }
}

Result<void> ServerProtocol::begin(Pending pending) {
  const bool ends_run = pending_ && pending_->running;
  if (pending_ && !ends_run) {
    return faulty(faulty_client("a request while another is in flight"));
  }
  if (pending.round != last_round_ + 1) {
    return faulty(faulty_client("round " + std::to_string(pending.round) + " after round " +
                                std::to_string(last_round_)));
  }
  if (ends_run) events_.push_back(RoundCancelled{last_round_});
  last_round_ = pending.round;
  // A new prompt ends the activations of the previous one.
  owed_ = {};
  run_rows_ = {};
  channel_.drop_bulk();
  pending_ = std::move(pending);
  return boost::system::in_place_value;
}

Result<void> ServerProtocol::on_prefill(wire::Prefill request) {
  if (request.base_length > length_) {
    return faulty(faulty_client("a prompt that builds on more tokens than the session holds"));
  }
  auto begun = begin(
      {.kind = wire::Kind::prefill,
       .round = request.round,
       .base_length = request.base_length,
       .given_count = static_cast<std::uint32_t>(request.tokens.size()) - request.provisional_count,
       .provisional_count = request.provisional_count,
       .policy = request.policy,
       .activations_from = request.activations_from,
       .run = request.run});
  if (!begun) return begun;
  // The statement covers a whole text that this request has checked.
  const bool is_whole = request.base_length == 0 && request.policy == wire::ResyncPolicy::check;
  if (request.receipt && is_whole && sign_) pending_->attested = request;
  events_.push_back(PrefillRequested{std::move(request)});
  return boost::system::in_place_value;
}

Result<void> ServerProtocol::on_resume(wire::Resume request) {
  auto begun = begin({.kind = wire::Kind::resume,
                      .round = request.round,
                      .base_length = request.verified_length,
                      .given_count = 0,
                      .provisional_count = static_cast<std::uint32_t>(request.tokens.size()),
                      .policy = request.policy,
                      .activations_from = request.activations_from,
                      .run = request.run});
  if (!begun) return begun;
  events_.push_back(ResumeRequested{std::move(request)});
  return boost::system::in_place_value;
}

Result<void> ServerProtocol::on_hints(wire::Hints hints) {
  if (hints.round == 0 || hints.round > last_round_) {
    return faulty(faulty_client("hints for a round that has not started"));
  }
  // Hints that the client sent before it learned that their run had ended.
  if (!pending_ || pending_->round != hints.round) return boost::system::in_place_value;
  if (pending_->run.credit == 0)
    return faulty(faulty_client("hints for a request that is not a run"));
  wire::RunTerms& run = pending_->run;
  const bool in_lockstep = run.hold == wire::Hold::lockstep;
  if (hints.complete) {
    // Complete hints answer a verdict, which bounds their number.
    const bool is_due = in_lockstep && pending_->running && hints.position == length_ &&
                        pending_->marked_length != length_;
    if (!is_due) return faulty(faulty_client("unexpected complete hints"));
    if (hints.nodes.size() > nodes_max_) return faulty(faulty_client("too many hints for a pass"));
    pending_->marked_length = length_;
    pending_->marked_count = hints.nodes.size();
  }
  if (!in_lockstep && hints.hold == wire::Hold::lockstep) {
    return faulty(faulty_client("hints that switch a run to lockstep"));
  }
  if (in_lockstep) hints.hold = wire::Hold::lockstep;
  const bool changes_terms = hints.credit > run.credit || hints.hold != run.hold;
  if (!hints.complete && !affords(hints)) {
    hints.nodes.clear();
    if (!changes_terms) return boost::system::in_place_value;
  }
  run.credit = std::max(run.credit, hints.credit);
  run.hold = hints.hold;
  events_.push_back(HintsReceived{std::move(hints)});
  return boost::system::in_place_value;
}

bool ServerProtocol::affords(const wire::Hints& hints) {
  const double seconds = std::chrono::duration<double>(now_ - hints_counted_).count();
  hints_counted_ = now_;
  hints_left_ = std::min(kHintsBurst, hints_left_ + seconds * kHintsPerSecond);
  const double cost = kHintMessageCost + static_cast<double>(hints.nodes.size());
  if (cost > hints_left_) return false;
  hints_left_ -= cost;
  return true;
}

Result<void> ServerProtocol::on_cancel(const wire::Cancel& cancel) {
  if (cancel.round == 0 || cancel.round != last_round_) {
    return faulty(faulty_client("a cancel for a round that is not the last"));
  }
  if (cancel.round == cancelled_round_) return boost::system::in_place_value;
  cancelled_round_ = cancel.round;
  has_root_ = false;
  owed_ = {};
  run_rows_ = {};
  channel_.drop_bulk();
  if (pending_) {
    if (!pending_->running) {
      if (pending_->kind == wire::Kind::prefill) length_ = pending_->base_length;
      if (pending_->kind == wire::Kind::resume) length_ = 0;
    }
    pending_.reset();
  }
  events_.push_back(RoundCancelled{cancel.round});
  return boost::system::in_place_value;
}

std::optional<std::uint64_t> ServerProtocol::length_after(const wire::Verdict& verdict) const {
  const Pending& request = *pending_;
  const bool in_lockstep = request.running && request.run.hold == wire::Hold::lockstep;
  const std::uint64_t row_count =
      in_lockstep && request.run.rows ? verdict_rows(verdict.tokens.size(), newest_row_) : 0;
  if (verdict.activations.size() != row_count * layout_.row_bytes()) return std::nullopt;
  const std::uint64_t base = request.base_length;
  if (request.running) {
    const std::uint64_t length = base + verdict.tokens.size() + 1;
    if (length > request.run.credit) return std::nullopt;
    const bool answers_hints =
        request.marked_length == base && verdict.tokens.size() <= request.marked_count;
    if (in_lockstep && !answers_hints) return std::nullopt;
    return length;
  }
  if (!verdict.tokens.empty() || verdict.accepted_count > request.provisional_count) {
    return std::nullopt;
  }
  // Under keep they are context, and the application does not count them.
  const std::uint32_t accepted = request.policy == wire::ResyncPolicy::keep
                                     ? request.provisional_count
                                     : verdict.accepted_count;
  return base + request.given_count + accepted + 1;
}

std::uint64_t ServerProtocol::pad_bytes(std::uint64_t rows, std::uint64_t bytes) const {
  const std::uint64_t wanted = padded_row_bytes_ * rows;
  return bytes > 0 && wanted > bytes ? wanted - bytes : 0;
}

Bytes ServerProtocol::receipt_of(wire::Prefill request, const wire::Verdict& verdict) const {
  const std::size_t given_count = request.tokens.size() - request.provisional_count;
  request.tokens.resize(given_count + verdict.accepted_count);
  request.tokens.push_back(verdict.next);
  const std::span<const std::uint32_t> tokens = request.tokens;
  const std::vector<Attested> provenance = attested_answer(verdict.accepted_count);
  const std::string statement = receipt_statement({.target = target_,
                                                   .arithmetic = arithmetic_,
                                                   .sampling = request.sampling,
                                                   .constraints = request.constraints,
                                                   .prompt = tokens.first(given_count),
                                                   .answer = tokens.subspan(given_count),
                                                   .provenance = provenance});
  return sign_(as_byte_view(statement));
}

bool ServerProtocol::verdict(wire::Verdict verdict) {
  if (!answers(verdict.round)) return false;
  const auto length = length_after(verdict);
  if (!length || *length > context_count_) {
    fail(at_odds("an answer that does not fit the request"));
    return false;
  }
  length_ = static_cast<std::uint32_t>(*length);
  if (pending_->running) {
    channel_.count_activations(verdict.activations.size(), verdict.activations.size());
  } else {
    if (pending_->policy == wire::ResyncPolicy::keep) {
      verdict.accepted_count = pending_->provisional_count;
    }
    const std::uint32_t valid_end = length_ - 1;
    owed_ = {
        .round = verdict.round,
        .first = layout_.cols() == 0 ? valid_end : std::min(pending_->activations_from, valid_end),
        .end = valid_end};
    pending_->running = pending_->run.credit > 0;
    if (pending_->run.rows && pending_->run.hold != wire::Hold::lockstep) {
      run_rows_ = {.round = verdict.round, .next = valid_end};
    }
  }
  if (pending_->attested) {
    verdict.receipt = receipt_of(*std::exchange(pending_->attested, {}), verdict);
  }
  pending_->base_length = length_;
  verdict.length = length_;
  has_root_ = true;
  ended_ = verdict.ending != wire::Ending::none;
  if (ended_ || !pending_->running) pending_.reset();
  const std::uint64_t padding =
      pad_bytes(verdict_rows(verdict.tokens.size(), newest_row_), verdict.activations.size());
  channel_.send(std::move(verdict), padding);
  return true;
}

bool ServerProtocol::activations(wire::Activations chunk) {
  if (state_ != State::ready) return false;
  const std::uint64_t end = std::uint64_t{chunk.first} + chunk.count;
  const bool in_order = newest_row_ ? chunk.first >= run_rows_.next : chunk.first == run_rows_.next;
  if (chunk.round == run_rows_.round && in_order && end < length_) {
    run_rows_.next = chunk.first + chunk.count;
    // Queue them right after their verdict; after a prompt's activations they would be late.
    channel_.count_activations(std::uint64_t{chunk.count} * layout_.row_bytes(), chunk.data.size());
    const std::uint64_t padding = pad_bytes(chunk.count, chunk.data.size());
    channel_.send(std::move(chunk), padding);
    return true;
  }
  if (chunk.round != owed_.round || owed_.first == owed_.end) return false;
  if (chunk.first < owed_.first || end != owed_.end) {
    fail(at_odds("activations of other positions than requested"));
    return false;
  }
  owed_.end = chunk.first;
  channel_.send_bulk(chunk, std::uint64_t{chunk.count} * layout_.row_bytes(),
                     pad_bytes(chunk.count, chunk.data.size()));
  return true;
}

void ServerProtocol::reading(std::uint32_t round) {
  if (answers(round)) channel_.send(wire::Ping{.reading = round});
}

bool ServerProtocol::refuse(std::uint32_t round, const Error& error) {
  if (!answers(round)) return false;
  if (pending_->kind == wire::Kind::resume && !pending_->running) {
    length_ = 0;
    has_root_ = false;
  }
  pending_.reset();
  channel_.send(wire::ErrorReport{
      .round = round, .code = error.code, .fatal = false, .message = error.message});
  return true;
}

bool ServerProtocol::answers(std::uint32_t round) const {
  return state_ == State::ready && pending_ && pending_->round == round;
}

void ServerProtocol::fail(const Error& error) {
  if (finished()) return;
  state_ = State::finished;
  failure_ = error;
  pending_.reset();
  channel_.drop_bulk();
  channel_.send(wire::ErrorReport{.code = error.code, .message = error.message});
}

void ServerProtocol::close(std::string reason) {
  if (finished()) return;
  state_ = State::finished;
  pending_.reset();
  channel_.drop_bulk();
  channel_.send(wire::Close{std::move(reason)});
}

}  // namespace edgedraft
