#include "client/generation/generation.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "shared/protocol/activation_codec.h"

// While the server answers: requests, verdicts, streams.
namespace edgedraft {

// Nothing is owed to us, and the way to the server stands. What ended it is told as an event.
bool Generation::may_send() const {
  return server_.signed_in && !request_.in_flight && parts_.link.state() == LinkState::online;
}

// A draft is better with the prompt's newest activations, which are on their way.
bool Generation::awaits_rows() const {
  const bool drafts = request_.running
                          ? ahead_ && memory_.pending()
                          : request_.kind == RequestInFlight::Kind::draft && plan_.tokens == 0;
  return drafts && parts_.now() < request_.rows_deadline;
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
      end_stream();
      on_late_verdict(*verdict);
    } else {
      on_verdict(*verdict);
    }
  }
  return boost::system::in_place_value;
}

bool Generation::awaits(VerdictReceived::To to) const {
  if (!request_.in_flight) return false;
  if (request_.running || to == VerdictReceived::To::run) {
    return request_.running && to == VerdictReceived::To::run;
  }
  return (to == VerdictReceived::To::draft) == (request_.kind == RequestInFlight::Kind::draft);
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
  request_.kind = RequestInFlight::Kind::tokens;
  return {};
}

void Generation::on_activations(const ActivationsReceived& event) {
  if (!parts_.drafter) return;
  if (event.of_run) {
    // What has taken their tokens' place since has others.
    // A prompt that is in flight asks for its own.
    const bool asked_again =
        request_.in_flight && !request_.running && request_.kind == RequestInFlight::Kind::tokens;
    const bool still_there =
        request_.running || (!asked_again && event.first + event.count <= unchanged_count_);
    if (still_there) memory_.add_cycle(event.first, event.count, event.rows);
    return;
  }
  // Those of the prompt that is in flight come behind its verdict: these are an older one's.
  if (request_.in_flight && request_.kind == RequestInFlight::Kind::tokens) return;
  request_.rows_deadline = {};
  memory_.add_part(event.first, event.count, event.rows, event.complete);
}

Result<void> Generation::drain_events() {
  // When the device answers alone the network is not to learn of it.
  bool may_try_again = route_ != AnswerRoute::device;
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
  const auto sent = request_.kind == RequestInFlight::Kind::tokens ? send_tokens()
                    : plan_.tokens > 0                             ? send_stream()
                                                                   : send_draft();
  if (sent) request_.in_flight = true;
  return sent;
}

Result<void> Generation::send_draft() {
  request_.tree = {};
  request_.streaming = false;
  request_.levels = 0;
  // The target adds a token of its own behind the tree.
  const std::uint32_t depth_max = options_.tokens_max - answer_count() - 1;
  if (options_.tree && depth_max > 0) {
    const Instant before = parts_.now();
    TreeShape shape = server_.affordable(*options_.tree);
    shape.limit(depth_max);
    if (shape.nodes > 0) request_.tree = parts_.drafter->draft(shape, draft_choice());
    request_.record.drafting = parts_.now() - before;
    request_.levels = shape.depth;
    request_.is_timed = is_timed();
    stats_.drafting += request_.record.drafting;
  }
  stats_.drafted += request_.tree.node_count();
  request_.rows = request_.tree.row_count();
  request_.drafted_at = parts_.now();
  return parts_.link.send(wire::OutgoingDraft{.tree = conversation_.draft(request_.tree)});
}

Result<void> Generation::send_stream() {
  request_.tree = {};
  request_.streaming = request_.stream_begins = true;
  plan_.streamed_since_look = 0;
  request_.drafted_at = parts_.now();
  return parts_.link.send(
      wire::OutgoingDraft{.tree = conversation_.draft({}), .stream_tokens = plan_.tokens});
}

// What comes behind an answered request: a draft, so many tokens of a stream, or first the
// activations that a stream left out.
void Generation::plan_next() {
  plan_.tokens = 0;
  const std::uint32_t left = options_.tokens_max - answer_count();
  if (options_.control == ControlMode::automatic && server_.stream_tokens_max > 0) {
    const std::uint32_t most = std::min(left, server_.stream_tokens_max);
    if (!options_.tree) {
      plan_.tokens = most;
    } else if (const auto decision = decide(); decision.stream) {
      plan_.look_after = decision.look_after;
      plan_.tokens = decision.ends_there ? std::min(most, plan_.look_after) : most;
    }
  }
  if (plan_.tokens == 0 && memory_.lacking()) request_.kind = RequestInFlight::Kind::tokens;
}

DraftControl::Decision Generation::decide() {
  const DraftControl::Decision decision = control_.decide(server_.affordable(*options_.tree));
  if (decision.stream) stats_.streamed_because = control_.why();
  if (control_.changed() && parts_.on_decision) {
    parts_.on_decision((decision.stream ? "streams: " : "drafts: ") + control_.why());
  }
  return decision;
}

// Ends a stream before its time; the server's part of it is dropped.
void Generation::end_stream() {
  if (!request_.in_flight) return;
  (void)parts_.link.send(CancelRequest{});
  request_.in_flight = false;
}

// A stream goes on unless drafting has become better.
void Generation::look_again() {
  if (!options_.tree || plan_.streamed_since_look < plan_.look_after) return;
  plan_.streamed_since_look = 0;
  if (decide().stream) return;
  end_stream();
  // No root is known now; with the next one come the activations.
  request_.kind = RequestInFlight::Kind::tokens;
}

void Generation::on_verdict(const VerdictReceived& event) {
  const Instant taken = parts_.now();
  const bool streamed = event.to == VerdictReceived::To::draft && request_.streaming;
  const std::uint32_t count_before = answer_count();
  ++stats_.target_calls;
  if (event.verdict.pace_us > 0) ++stats_.paced_passes;
  if (event.verdict.computed_us > event.verdict.pace_us) ++stats_.late_passes;
  server_.row_budget = event.verdict.row_budget;
  request_.kind = RequestInFlight::Kind::draft;
  const Duration round_trip = round_trip_of(event, taken);
  observe(event, round_trip);
  tell_logprobs(event.verdict);
  if (streamed) {
    request_.deadline = taken + options_.deadline;
    take_streamed(event.verdict);
  } else if (event.to == VerdictReceived::To::run) {
    request_.deadline = taken + options_.deadline;
    take_run(event);
  } else if (event.to == VerdictReceived::To::draft) {
    take_cycle(event);
  } else {
    server_.took_tokens(event.to == VerdictReceived::To::prefill);
    memory_.expect_until(event.verdict.length - 1);
    // A draft without them would be poor. They follow the verdict, so that a wait as long as the
    // one for it costs no more than a poor draft's cycle.
    if (memory_.pending()) request_.rows_deadline = parts_.now() + (parts_.now() - request_.sent);
    take_check(event.verdict);
    if (event.more) {
      request_.deadline = taken + options_.deadline;
      begin_run();
    }
  }
  conversation_.settle();
  // A token beyond tokens_max was not written, and ends nothing.
  const bool written = conversation_.count() == event.verdict.length;
  end_where_due(written ? event.verdict.ending : wire::Ending::none);
  note_verdict(event, round_trip, count_before);
  request_.stream_begins = false;
  if (end_) return;
  if (request_.running) return;
  if (event.more) {
    look_again();
  } else {
    plan_next();
  }
}

// For a stream's later verdicts, the time since the one before.
Duration Generation::round_trip_of(const VerdictReceived& event, Instant taken) {
  const Instant received = event.times ? event.times->received : taken;
  const Instant before = std::exchange(request_.last_received, received);
  const bool draft = event.to == VerdictReceived::To::draft;
  const bool goes_on = draft && request_.streaming && !request_.stream_begins;
  if (goes_on || event.to == VerdictReceived::To::run) return received - before;
  return received - (event.times ? event.times->sent : draft ? request_.drafted_at : request_.sent);
}

void Generation::observe(const VerdictReceived& event, Duration round_trip) {
  if (event.to == VerdictReceived::To::run) return;
  const wire::Verdict& v = event.verdict;
  const Duration server = std::chrono::microseconds(std::uint64_t{v.queue_us} + v.verify_us);
  const Duration link =
      std::max(Duration::zero(), round_trip - server - std::chrono::microseconds(v.draft_us));
  control_.expect_crowd(v.prefers_streams);
  if (v.stream_us > 0) control_.expect_stream(std::chrono::microseconds(v.stream_us));
  if (event.to != VerdictReceived::To::draft) {
    control_.observe_prompt(request_.rows, link, server);
    run_control_.observe_link(link);
    std::vector<DraftControl::Expected> expected;
    for (std::size_t size = 0; size < v.outlook_us.size(); ++size) {
      expected.push_back({.server = std::chrono::microseconds(v.outlook_us[size]),
                          .tokens = v.outlook_tokens[size] / double{wire::kOutlookTokenParts}});
    }
    control_.expect_drafts(expected);
  } else if (!request_.streaming) {
    control_.observe_cycle(
        {.rows = request_.rows,
         .levels = request_.levels,
         .tokens = static_cast<std::uint32_t>(v.path.size()) + 1,
         .drafting = request_.is_timed ? std::optional(request_.record.drafting) : std::nullopt,
         .link = link,
         .server = server});
  } else if (request_.stream_begins) {
    control_.observe_stream_begin(link);
  } else {
    control_.observe_streamed(static_cast<std::uint32_t>(v.tokens.size()) + 1, round_trip);
  }
}

// Those of tokens that the answer has, or is about to be given.
void Generation::tell_logprobs(const wire::Verdict& verdict) {
  if (logprobs_ == 0 || verdict.logprobs.empty()) return;
  const auto count = static_cast<std::uint32_t>(verdict.logprobs.size() / logprobs_);
  const std::uint32_t first = verdict.length - count;
  // Those of tokens before the answer have no place there, whatever the server tells.
  const std::uint32_t before = first < answer_first() ? answer_first() - first : 0;
  if (before >= count) return;
  parts_.observer.on_logprobs(first + before - answer_first(),
                              std::span(verdict.logprobs).subspan(std::size_t{before} * logprobs_),
                              logprobs_);
}

void Generation::take_streamed(const wire::Verdict& verdict) {
  for (const std::uint32_t token : verdict.tokens) write(token, Provenance::verified);
  write(verdict.next, Provenance::verified);
  server_.count = conversation_.count();
  memory_.streamed();
  const auto accepted = static_cast<std::uint32_t>(verdict.tokens.size());
  ++stats_.cycles;
  stats_.cycle_tokens += accepted + 1;
  stats_.drafted += verdict.drafted;
  stats_.accepted += accepted;
  stats_.streamed_tokens += accepted + 1;
  plan_.streamed_since_look += accepted + 1;
}

void Generation::take_cycle(const VerdictReceived& event) {
  if (!event.rows.empty() && parts_.drafter) {
    const std::uint32_t count = verdict_rows(event.verdict.path.size(), server_.newest_row);
    memory_.add_cycle(event.rows_first, count, event.rows);
  }
  for (const std::uint8_t row : event.verdict.path)
    write(request_.tree.token(row), Provenance::verified);
  write(event.verdict.next, Provenance::verified);
  server_.count = conversation_.count();
  const auto accepted = static_cast<std::uint32_t>(event.verdict.path.size());
  ++stats_.cycles;
  stats_.cycle_tokens += accepted + 1;
  stats_.accepted += accepted;
}

void Generation::note_verdict(const VerdictReceived& event, Duration round_trip,
                              std::uint32_t count_before) {
  if (!parts_.on_cycle) return;
  CycleRecord record = std::exchange(request_.record, {});
  const bool runs = event.to == VerdictReceived::To::run;
  record.kind = runs || event.to == VerdictReceived::To::draft ? CycleRecord::Kind::draft
                : request_.checked                             ? CycleRecord::Kind::resync
                                                               : CycleRecord::Kind::prompt;
  record.server = {.queue_us = event.verdict.queue_us,
                   .verify_us = event.verdict.verify_us,
                   .held_us = event.verdict.held_us,
                   .pace_us = event.verdict.pace_us,
                   .computed_us = event.verdict.computed_us,
                   .draft_us = event.verdict.draft_us};
  record.streamed = runs || (record.kind == CycleRecord::Kind::draft && request_.streaming);
  record.rows = record.streamed ? event.verdict.drafted + event.verdict.hinted + 1 : request_.rows;
  record.accepted =
      static_cast<std::uint32_t>(event.verdict.path.size() + event.verdict.tokens.size());
  record.tokens = answer_count() - std::min(count_before, answer_count());
  record.round_trip = round_trip;
  if (event.times) {
    const Instant before_request =
        record.kind == CycleRecord::Kind::draft ? request_.drafted_at : request_.sent;
    const bool goes_on = runs || (record.streamed && !request_.stream_begins);
    if (!goes_on) record.pack = event.times->sent - before_request;
    record.unpack = parts_.now() - event.times->received;
    record.tcp = event.times->tcp;
  }
  note(std::move(record));
}

void Generation::note(CycleRecord record) {
  if (!parts_.on_cycle) return;
  record.at = parts_.now() - started_;
  record.answer_tokens = answer_count();
  const LinkStats link = parts_.link.stats();
  record.link = link.since(noted_link_);
  noted_link_ = link;
  parts_.on_cycle(record);
}

}  // namespace edgedraft
