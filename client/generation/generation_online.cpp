#include "client/generation/generation.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "shared/protocol/activation_codec.h"

// While the server answers: requests and verdicts.
namespace edgedraft {

// Nothing is owed to us, and the way to the server stands. What ended it is told as an event.
bool Generation::may_send() const {
  return server_.signed_in && !request_.in_flight && parts_.link.state() == LinkState::online;
}

Error Generation::no_answer_in_time() {
  return {Errc::timed_out, "the server did not answer in time"};
}

// Online and resyncing: the server owes us an answer, or the way to it is still being made.
Result<void> Generation::take_online(const Result<ClientEvent>& told) {
  if (told) return on_event(*told);
  if (told.error().code != Errc::timed_out) return on_link_error(told.error());
  if (may_send() || parts_.now() < request_.deadline) return boost::system::in_place_value;
  return on_link_error(no_answer_in_time());
}

Result<void> Generation::on_event(const ClientEvent& event) {
  if (const auto* welcomed = std::get_if<Welcomed>(&event)) return on_welcome(welcomed->welcome);
  if (const auto* rows = std::get_if<ActivationsReceived>(&event)) on_activations(*rows);
  if (const auto* refused = std::get_if<RequestRefused>(&event)) return on_refused(refused->error);
  if (const auto* verdict = std::get_if<VerdictReceived>(&event)) {
    if (!awaits(verdict->to)) return {};
    request_.in_flight = verdict->more;
    if (state_ == ClientState::offline) {
      drop_request();
      on_late_verdict(*verdict);
    } else {
      on_verdict(*verdict);
    }
  }
  return boost::system::in_place_value;
}

bool Generation::awaits(VerdictReceived::To to) const {
  return request_.in_flight && request_.running == (to == VerdictReceived::To::run);
}

Result<void> Generation::on_welcome(const wire::Welcome& welcome) {
  const std::uint32_t cols =
      std::accumulate(welcome.scale_groups.begin(), welcome.scale_groups.end(), 0u);
  if (parts_.drafter && cols != parts_.drafter->activation_cols()) {
    return Error{Errc::mismatch, "the server sends " + std::to_string(cols) +
                                     " activations a token, the drafter takes " +
                                     std::to_string(parts_.drafter->activation_cols()) +
                                     ": give both sides the same bundle"};
  }
  server_.welcomed(welcome);
  request_.in_flight = request_.running = false;
  request_.asks = true;
  return {};
}

void Generation::on_activations(const ActivationsReceived& event) {
  if (!parts_.drafter) return;
  if (event.of_run) {
    // What has taken their tokens' place since has others.
    // A prompt that is in flight asks for its own.
    const bool asked_again = request_.in_flight && !request_.running;
    const bool still_there =
        request_.running || (!asked_again && event.first + event.count <= unchanged_count_);
    if (still_there) memory_.add_cycle(event.first, event.count, event.rows);
    return;
  }
  // Those of the prompt that is in flight come behind its verdict: these are an older one's.
  if (request_.in_flight && !request_.running) return;
  request_.rows_deadline = {};
  memory_.add_part(event.first, event.count, event.rows, event.complete);
}

Result<void> Generation::drain_events() {
  // When the device answers alone the network is not to learn of it.
  bool may_try_again = terms_.route != AnswerRoute::device;
  for (;;) {
    const auto event = parts_.link.wait_event(parts_.now());
    if (!event) {
      if (event.error().code == Errc::timed_out) return {};
      if (event.error().code == Errc::link_down) {
        on_link_down(event.error());
        continue;
      }
      // What closed the link may be mended by now. A reason that is new is told first: it ends an
      // answer that would else be written without a word of it.
      const bool known = server_.link_closed || server_.link_error;
      if (!known || !std::exchange(may_try_again, false)) return {};
      parts_.link.try_again();
      continue;
    }
    // Between answers nothing is awaited: a verdict or refusal now belongs to a cancelled request.
    if (const auto* welcomed = std::get_if<Welcomed>(&*event)) {
      if (auto taken = on_welcome(welcomed->welcome); !taken) return taken;
    }
    if (const auto* rows = std::get_if<ActivationsReceived>(&*event)) on_activations(*rows);
    if (!std::holds_alternative<ActivationsReceived>(*event)) request_.in_flight = false;
  }
}

Result<void> Generation::send_wanted() {
  request_.sent = parts_.now();
  request_.deadline = request_.sent + options_.deadline;
  request_.rows_deadline = {};
  request_.record = {};
  const auto sent = request_.asks ? send_tokens() : drafting_.send_draft();
  if (sent) request_.in_flight = true;
  return sent;
}

void Generation::on_verdict(const VerdictReceived& event) {
  const Instant taken = parts_.now();
  const std::uint32_t count_before = answer_count();
  ++stats_.target_calls;
  request_.asks = false;
  const Duration round_trip = notes_.round_trip_of(event, request_, taken);
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
    // A draft without them would be poor. They follow the verdict, so that a wait as long as the
    // one for it costs no more than a poor draft's cycle.
    if (memory_.pending()) request_.rows_deadline = parts_.now() + (parts_.now() - request_.sent);
    take_check(event.verdict);
    if (event.more) {
      request_.deadline = taken + options_.deadline;
      drafting_.begin();
    }
  }
  conversation_.settle();
  // A token beyond tokens_max was not written, and ends nothing.
  const bool written = conversation_.count() == event.verdict.length;
  text_.end_where_due(written ? event.verdict.ending : wire::Ending::none);
  notes_.add_verdict(event, request_, round_trip, count_before);
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
    request_.in_flight = false;  // the next pass is ours to begin
    request_.running = event.more;
    return;
  }
  drafting_.take(verdict, before);
}

}  // namespace edgedraft
