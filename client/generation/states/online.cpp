#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "client/generation/states/states.h"
#include "shared/protocol/activation_codec.h"

namespace edgedraft::client {
namespace {

// Interval for checking whether a backed-up link accepts hints again.
constexpr Duration kBackedUpLook = std::chrono::milliseconds(5);

}  // namespace

// During a step of drafting, a run's verdicts queue in the link. All are taken before the next
// step. Taking one per step would fall behind a server faster than the drafter, and draft below a
// root that was decided long before.
Result<Phase> OnlineState::take(const Result<ClientEvent>& told) {
  answer_.requests.end_wait();
  Result<Phase> next = take_one(told);
  while (next && *next == Phase::online && request_.running && request_.in_flight &&
         !answer_.text.end()) {
    const auto more = parts_.link.wait_event(Instant::min());
    if (!more && more.error().code == Errc::timed_out) break;
    next = take_one(more);
  }
  if (next && answer_.agreement.state() == ClientState::online) {
    answer_.drafting.look(answer_.text.end().has_value());
  }
  return next;
}

Result<Phase> OnlineState::take_one(const Result<ClientEvent>& told) {
  if (!told) {
    if (told.error().code != Errc::timed_out) return answer_.agreement.lost(told.error());
    const bool may_come = answer_.requests.may_send() || parts_.now() < request_.deadline;
    if (may_come) return Phase::online;
    return answer_.agreement.lost(ServerView::no_answer_in_time());
  }
  if (auto taken = answer_.requests.take(*told); !taken) return taken.error();
  if (const auto* refused = std::get_if<RequestRefused>(&*told)) {
    return answer_.agreement.refused(refused->error);
  }
  const auto* const verdict = std::get_if<VerdictReceived>(&*told);
  if (verdict != nullptr && answer_.requests.awaits(verdict->to)) {
    request_.in_flight = verdict->more;
    take_verdict(*verdict);
  }
  return Phase::online;
}

void OnlineState::take_verdict(const VerdictReceived& event) {
  const Instant taken = parts_.now();
  const std::uint32_t count_before = conversation_.answer_count();
  ++stats_.target_calls;
  request_.asks = false;
  const Duration round_trip = answer_.notes.round_trip_of(event, taken);
  answer_.text.tell_logprobs(event.verdict);
  if (event.to == VerdictReceived::To::run) {
    request_.deadline = taken + options_.deadline;
    take_run(event);
  } else {
    answer_.drafting.observe_link(std::max(
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
      answer_.drafting.begin();
    }
  }
  conversation_.settle();
  answer_.device.agree();
  // A token beyond tokens_max was not written and ends nothing.
  const bool written = conversation_.count() == event.verdict.length;
  answer_.text.end_where_due(written ? event.verdict.ending : wire::Ending::none);
  answer_.notes.add_verdict(event, round_trip, count_before);
}

void OnlineState::take_run(const VerdictReceived& event) {
  const wire::Verdict& verdict = event.verdict;
  const std::uint32_t before = conversation_.count();
  if (!event.rows.empty() && parts_.drafter) {
    const std::uint32_t rows = verdict_rows(verdict.tokens.size(), server_.newest_row);
    memory_.add_cycle(event.rows_first, rows, event.rows);
  }
  for (const std::uint32_t token : verdict.tokens) answer_.text.write(token, Provenance::verified);
  answer_.text.write(verdict.next, Provenance::verified);
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
  answer_.drafting.take(verdict, before);
}

void OnlineState::take_check(const wire::Verdict& verdict) {
  const std::uint32_t settled = conversation_.settled_count();
  const std::uint32_t written = conversation_.count() - settled;
  std::uint32_t standing = request_.checked ? std::min(verdict.accepted_count, written) : written;
  const std::uint32_t kept = settled + standing;
  // The server's token may repeat the offline text, as at an answer's end: no correction.
  const bool repeats = kept < conversation_.count() && conversation_.tokens()[kept] == verdict.next;
  if (repeats) ++standing;
  if (request_.checked) {
    const std::uint32_t first = settled - conversation_.answer_first();
    conversation_.confirm(standing);
    parts_.observer.on_confirmed(first, first + standing);
  }
  const std::uint32_t rewritten = written - standing;
  stats_.rewritten_tokens += rewritten;
  if (rewritten > 0) {
    answer_.requests.drop_from(settled + standing);
    parts_.observer.on_rewrite(conversation_.answer_count());
  }
  const std::string before = std::exchange(server_.chosen_under, {});
  if (answer_.agreement.state() == ClientState::resyncing) {
    std::string why = request_.checked
                          ? std::to_string(standing) + " offline tokens confirmed, " +
                                std::to_string(rewritten) + " rewritten"
                          : std::to_string(stats_.offline_tokens) + " offline tokens kept";
    if (!before.empty()) {
      why += "; another kind of server (" + server_.arithmetic + ", before: " + before +
             ") may round differently, so the rest may not be what one server would have written";
    }
    answer_.agreement.enter(ClientState::online, why);
  }
  if (!repeats) answer_.text.write(verdict.next, Provenance::verified);
  server_.count = conversation_.count();
}

Result<void> OnlineState::send_wanted() {
  RunDrafting& drafting = answer_.drafting;
  Requests& requests = answer_.requests;
  if (request_.asks) {
    return requests.send_tokens(drafting.run_terms(requests.count_beyond_doubt() + 1));
  }
  requests.begin();
  const auto sent = drafting.send_draft();
  request_.in_flight = sent.has_value();
  return sent;
}

Result<State::Step> OnlineState::work() {
  if (answer_.text.end()) return Step{Phase::over};
  RunDrafting& drafting = answer_.drafting;
  if (answer_.requests.may_send() && !drafting.awaits_rows()) {
    if (auto sent = send_wanted(); !sent) {
      const Result<Phase> next = answer_.agreement.lost(sent.error());
      if (!next) return next.error();
      return Step{*next};
    }
  }
  if (drafting.drafts_ahead()) {
    drafting.step();
  } else if (drafting.holds_news()) {
    drafting.send_news();
  }
  const Instant now = answer_.requests.begin_wait();
  // The link may have an event between two steps.
  Instant end = drafting.drafts_ahead()  ? now
                : drafting.awaits_rows() ? request_.rows_deadline
                                         : request_.deadline;
  if (drafting.holds_news()) end = std::min(end, now + kBackedUpLook);
  return Step{Phase::online, end};
}

}  // namespace edgedraft::client
