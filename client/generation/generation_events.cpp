#include "client/generation/generation.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "shared/protocol/activation_codec.h"

// Handling of link events, with and without the server.
namespace edgedraft::client {
namespace {

bool trying_again_may_help(Errc code) {
  return code == Errc::link_down || code == Errc::timed_out || code == Errc::refused;
}

}  // namespace

// Online and resyncing: the server owes an answer, or the connection is still being made.
Result<void> Generation::take_online(const Result<ClientEvent>& told) {
  if (told) return on_event(*told);
  if (told.error().code != Errc::timed_out) return on_link_error(told.error());
  const bool may_come = requests_.may_send() || parts_.now() < request_.deadline;
  if (may_come) return boost::system::in_place_value;
  return on_link_error(ServerView::no_answer_in_time());
}

Result<void> Generation::on_event(const ClientEvent& event) {
  if (auto taken = requests_.take(event); !taken) return taken;
  if (const auto* refused = std::get_if<RequestRefused>(&event)) return on_refused(refused->error);
  if (const auto* verdict = std::get_if<VerdictReceived>(&event)) {
    if (!requests_.awaits(verdict->to)) return {};
    request_.in_flight = verdict->more;
    if (state_ == ClientState::offline) {
      requests_.drop();
      requests_.take_late(*verdict);
    } else {
      on_verdict(*verdict);
    }
  }
  return boost::system::in_place_value;
}

void Generation::on_verdict(const VerdictReceived& event) {
  const Instant taken = parts_.now();
  const std::uint32_t count_before = answer_count();
  ++stats_.target_calls;
  request_.asks = false;
  const Duration round_trip = notes_.round_trip_of(event, taken);
  text_.tell_logprobs(event.verdict);
  if (event.to == VerdictReceived::To::run) {
    request_.deadline = taken + options_.deadline;
    take_run(event);
  } else {
    drafting_.observe_link(std::max(
        Duration::zero(),
        round_trip - std::chrono::microseconds(std::uint64_t{event.verdict.queue_us} +
                                               event.verdict.verify_us + event.verdict.draft_us)));
    server_.took_tokens(event.to == VerdictReceived::To::prefill);
    memory_.expect_until(event.verdict.length - 1);
    // A draft without these rows would be poor. They follow the verdict, so a wait as long as the
    // verdict's costs no more than one cycle with a poor draft.
    if (memory_.pending()) request_.rows_deadline = parts_.now() + (parts_.now() - request_.sent);
    take_check(event.verdict);
    if (event.more) {
      request_.deadline = taken + options_.deadline;
      drafting_.begin();
    }
  }
  conversation_.settle();
  // A token beyond tokens_max was not written and ends nothing.
  const bool written = conversation_.count() == event.verdict.length;
  text_.end_where_due(written ? event.verdict.ending : wire::Ending::none);
  notes_.add_verdict(event, round_trip, count_before);
}

void Generation::take_run(const VerdictReceived& event) {
  const wire::Verdict& verdict = event.verdict;
  const std::uint32_t before = conversation_.count();
  if (!event.rows.empty() && parts_.drafter) {
    const std::uint32_t rows = verdict_rows(verdict.tokens.size(), server_.newest_row);
    memory_.add_cycle(event.rows_first, rows, event.rows);
  }
  for (const std::uint32_t token : verdict.tokens) text_.write(token, Provenance::verified);
  text_.write(verdict.next, Provenance::verified);
  server_.count = conversation_.count();
  const auto accepted = static_cast<std::uint32_t>(verdict.tokens.size());
  ++stats_.cycles;
  stats_.cycle_tokens += accepted + 1;
  stats_.drafted += verdict.drafted;
  stats_.accepted += accepted;
  if (options_.in_lockstep()) {
    request_.in_flight = false;  // this side begins the next pass
    request_.running = event.more;
    return;
  }
  drafting_.take(verdict, before);
}

void Generation::take_check(const wire::Verdict& verdict) {
  const std::uint32_t settled = conversation_.settled_count();
  const std::uint32_t written = conversation_.count() - settled;
  std::uint32_t standing = request_.checked ? std::min(verdict.accepted_count, written) : written;
  const std::uint32_t kept = settled + standing;
  // The server's token may repeat the offline text, as at an answer's end: no correction.
  const bool repeats = kept < conversation_.count() && conversation_.tokens()[kept] == verdict.next;
  if (repeats) ++standing;
  if (request_.checked) {
    conversation_.confirm(standing);
    parts_.observer.on_confirmed(settled - answer_first(), settled + standing - answer_first());
  }
  const std::uint32_t rewritten = written - standing;
  stats_.rewritten_tokens += rewritten;
  if (rewritten > 0) {
    requests_.drop_from(settled + standing);
    parts_.observer.on_rewrite(answer_count());
  }
  if (state_ == ClientState::resyncing) {
    enter(ClientState::online,
          request_.checked ? std::to_string(standing) + " offline tokens confirmed, " +
                                 std::to_string(rewritten) + " rewritten"
                           : std::to_string(stats_.offline_tokens) + " offline tokens kept");
  }
  if (!repeats) text_.write(verdict.next, Provenance::verified);
  server_.count = conversation_.count();
}

void Generation::begin_resync() {
  ++stats_.resyncs;
  text_.go_on();
  request_.asks = true;
  enter(ClientState::resyncing, "the server is back");
}

Result<void> Generation::send_wanted() {
  if (request_.asks) {
    return requests_.send_tokens(drafting_.run_terms(requests_.count_beyond_doubt() + 1));
  }
  requests_.begin();
  const auto sent = drafting_.send_draft();
  request_.in_flight = sent.has_value();
  return sent;
}

Result<void> Generation::take_offline(const Result<ClientEvent>& told) {
  if (told) {
    if (auto taken = on_event(*told); !taken) return taken;
  } else {
    on_error_offline(told.error());
    // If the drafter cannot write, the answer has nothing to show.
    if (server_.link_closed && !device_.writes_here()) return told.error();
  }
  if (may_ask_again()) begin_resync();
  if (!told && state_ == ClientState::offline) {
    if (device_.writes_here()) {
      if (auto written = write_offline(); !written) return written;
    } else if (device_.is_overdue()) {
      return device_.unanswered(server_.link_error.value_or(ServerView::no_answer_in_time()));
    }
  }
  if (state_ == ClientState::offline) device_.keep_if_due();
  return boost::system::in_place_value;
}

Result<void> Generation::write_offline() {
  const Instant before = parts_.now();
  const std::optional<std::uint32_t> token = device_.choose();
  if (!token) {
    const Result<bool> ends = device_.take_nothing();
    if (!ends) return ends.error();
    if (*ends) text_.end_as(GenerationEnd::context);
    return boost::system::in_place_value;
  }
  CycleRecord record{.kind = CycleRecord::Kind::offline};
  record.drafting = parts_.now() - before;
  stats_.drafting += record.drafting;
  ++stats_.offline_tokens;
  text_.write(*token, terms_.is_private ? Provenance::private_ : Provenance::offline);
  record.tokens = 1;
  notes_.add(std::move(record));
  text_.end_where_written({device_.take_room(), server_room()});
  return boost::system::in_place_value;
}

// An answer that ended offline waits for its check. The wait has one deadline in all: a server that
// refuses each check does not restart it.
void Generation::take_awaiting_check(const Result<ClientEvent>& told) {
  if (told) {
    if (!on_event(*told)) return finish();
  } else {
    on_error_offline(told.error());
    if (server_.link_closed) return finish();
  }
  if (may_ask_again()) {
    phase_ = Phase::writing;
    begin_resync();
    return;
  }
  if (state_ == ClientState::offline) device_.keep_if_due();
  if (!requests_.has_text_to_check() || device_.is_overdue()) finish();
}

void Generation::on_error_offline(const Error& error) {
  if (error.code == Errc::link_down) requests_.lost(error);
  if (trying_again_may_help(error.code) || server_.link_closed) return;
  // The link will not come back. Reported once, although the link repeats it at every call.
  server_.link_closed = true;
  enter(ClientState::offline, error.message);
}

Result<void> Generation::on_refused(const Error& error) {
  request_.in_flight = request_.running = false;
  const bool given_everything = server_.count == 0 && !server_.session;
  if (error.code == Errc::session_unknown && !given_everything) {
    server_.forgot();
    request_.asks = true;
    return boost::system::in_place_value;
  }
  // A server that received everything and still reports no session is out of capacity, regardless
  // of its reason. Resending everything at once could loop forever.
  const bool no_room = error.code == Errc::refused || error.code == Errc::session_unknown;
  const Error reason = no_room ? Error{Errc::refused, error.message} : error;
  if (!no_room || !device_.bears_outages()) return on_link_error(reason);
  // The connection stays up, so no event announces free capacity.
  server_.ask_again = parts_.now() + options_.deadline;
  go_offline(reason.message);
  return boost::system::in_place_value;
}

Result<void> Generation::on_link_error(const Error& error) {
  if (error.code == Errc::link_down) {
    requests_.lost(error);
  } else if (error.code != Errc::timed_out) {  // on timeout the answer may still arrive
    request_.in_flight = request_.running = false;
    server_.signed_in = server_.signed_in && parts_.link.state() == LinkState::online;
  }
  const bool hopeless = !trying_again_may_help(error.code);
  server_.link_closed = server_.link_closed || hopeless;
  const bool nothing_to_show = answer_count() == 0 || !terms_.writes_offline;
  if (!device_.bears_outages() || (hopeless && nothing_to_show)) return error;
  go_offline(error.message);
  return boost::system::in_place_value;
}

void Generation::go_offline(const std::string& why) {
  if (state_ == ClientState::offline) return;
  device_.begin_outage();
  enter(ClientState::offline, why);
  // The text may have been complete, and only its check was lost.
  if (answer_count() > 0) text_.end_where_written({server_room()});
}

}  // namespace edgedraft::client
