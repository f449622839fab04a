#include "client/generation/generation.h"

#include <algorithm>
#include <numeric>
#include <utility>

// While the server answers: requests, verdicts, streams.
namespace edgedraft {
namespace {

// How long a wait may last before the user's Ctrl-C is looked at again.
constexpr Duration kWaitSlice = std::chrono::milliseconds(50);

}  // namespace

// Online and resyncing: the server owes us an answer, or the way to it is still being made.
Result<void> Generation::step_online() {
  const Instant before = parts_.now();
  cut_off_where_due();
  if (state_ == ClientState::offline) return {};
  const bool ready = signed_in_ && !in_flight_ && !cut_off_;
  const bool held_back =
      ready && wanted_ == Wanted::draft && stream_tokens_ == 0 && before < rows_deadline_;
  if (ready && !held_back) {
    if (auto sent = send_wanted(); !sent) return on_link_error(sent.error());
    return boost::system::in_place_value;
  }
  const Instant deadline = held_back ? rows_deadline_ : wait_deadline_;
  const auto event = parts_.link.wait_event(std::min(deadline, before + kWaitSlice));
  stats_.waiting += parts_.now() - before;
  if (event) return on_event(*event);
  if (event.error().code == Errc::timed_out) {
    if (held_back || parts_.now() < wait_deadline_) return boost::system::in_place_value;
    return on_link_error({Errc::timed_out, "the server did not answer in time"});
  }
  return on_link_error(event.error());
}

Result<void> Generation::on_event(const ClientEvent& event) {
  if (const auto* welcomed = std::get_if<Welcomed>(&event)) return on_welcome(welcomed->welcome);
  if (const auto* rows = std::get_if<ActivationsReceived>(&event)) on_activations(*rows);
  if (const auto* refused = std::get_if<RequestRefused>(&event)) return on_refused(refused->error);
  if (const auto* verdict = std::get_if<VerdictReceived>(&event)) {
    const bool to_draft = verdict->to == VerdictReceived::To::draft;
    // Nothing that is still asked.
    if (!in_flight_ || to_draft != (wanted_ == Wanted::draft)) return {};
    in_flight_ = verdict->more;
    if (state_ == ClientState::offline) {
      end_stream();
      on_late_verdict(*verdict);
    } else {
      on_verdict(*verdict);
    }
  }
  return boost::system::in_place_value;
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
  signed_in_ = true;
  in_flight_ = false;
  link_error_.reset();
  fresh_session_ = welcome.session;
  nodes_max_ = welcome.nodes_max;
  row_budget_ = welcome.row_budget;
  stream_tokens_max_ = welcome.stream_tokens_max;
  context_count_ = options_.context_count == 0
                       ? welcome.context_count
                       : std::min(options_.context_count, welcome.context_count);
  ask_again_ = {};
  wanted_ = Wanted::tokens;
  return {};
}

void Generation::on_activations(const ActivationsReceived& event) {
  if (!parts_.drafter) return;
  // Those of the prompt that is in flight come behind its verdict: these are an older one's.
  if (in_flight_ && wanted_ == Wanted::tokens) return;
  rows_deadline_ = {};
  parts_.drafter->add_activations(event.first, event.rows);
  rows_end_ = std::max(rows_end_, event.first + event.count);
  if (!event.complete) return;
  rows_pending_ = false;
  activations_end_ = rows_end_;
}

Result<void> Generation::drain_events() {
  for (;;) {
    const auto event = parts_.link.wait_event(parts_.now());
    if (!event) {
      if (event.error().code != Errc::link_down) return {};
      on_link_down(event.error());
      continue;
    }
    // Between answers nothing is awaited: a verdict or refusal now belongs to a cancelled request.
    if (const auto* welcomed = std::get_if<Welcomed>(&*event)) {
      if (auto taken = on_welcome(welcomed->welcome); !taken) return taken;
    }
    if (const auto* rows = std::get_if<ActivationsReceived>(&*event)) on_activations(*rows);
    if (!std::holds_alternative<ActivationsReceived>(*event)) in_flight_ = false;
  }
}

Result<void> Generation::send_wanted() {
  sent_ = parts_.now();
  wait_deadline_ = sent_ + options_.deadline;
  rows_deadline_ = {};
  draft_record_ = {};
  const auto sent = wanted_ == Wanted::tokens ? send_tokens()
                    : stream_tokens_ > 0      ? send_stream()
                                              : send_draft();
  if (sent) in_flight_ = true;
  return sent;
}

Result<void> Generation::send_draft() {
  tree_ = {};
  streaming_ = false;
  drafted_levels_ = 0;
  // The target adds a token of its own behind the tree.
  const std::uint32_t depth_max = options_.tokens_max - answer_count() - 1;
  if (options_.tree && depth_max > 0) {
    const Instant before = parts_.now();
    TreeShape shape = affordable_tree();
    shape.depth = std::min(shape.depth, depth_max);
    if (shape.nodes > 0) tree_ = parts_.drafter->draft(shape);
    draft_record_.drafted_in = parts_.now() - before;
    draft_record_.drafting_pace = keep_pace(before, shape.depth);
    draft_record_.drafting = parts_.now() - before;
    drafted_levels_ = shape.depth;
    stats_.drafting += draft_record_.drafting;
  }
  stats_.drafted += tree_.node_count();
  sent_rows_ = tree_.row_count();
  drafted_at_ = parts_.now();
  return parts_.link.send(
      wire::OutgoingDraft{.tree = SafeTree(ledger_, tree_.tokens(), tree_.parents())});
}

Result<void> Generation::send_stream() {
  tree_ = {};
  streaming_ = stream_begins_ = true;
  streamed_since_look_ = 0;
  drafted_at_ = parts_.now();
  return parts_.link.send(
      wire::OutgoingDraft{.tree = SafeTree(ledger_), .stream_tokens = stream_tokens_});
}

// The wanted tree, as small as the server and its row budget ask for.
TreeShape Generation::affordable_tree() const {
  TreeShape shape = *options_.tree;
  shape.nodes = std::min(shape.nodes, nodes_max_);
  if (row_budget_ > 0) shape.nodes = std::min(shape.nodes, row_budget_ - 1);
  shape.depth = std::min(shape.depth, shape.nodes);
  return shape;
}

// What comes behind an answered request: a draft, so many tokens of a stream, or first the
// activations that a stream left out.
void Generation::plan_next() {
  stream_tokens_ = 0;
  const std::uint32_t left = options_.tokens_max - answer_count();
  if (options_.control == ControlMode::automatic && stream_tokens_max_ > 0) {
    std::uint32_t most = std::min(left, stream_tokens_max_);
    if (options_.offline_after && *options_.offline_after > answer_count()) {
      most = std::min(most, *options_.offline_after - answer_count());
    }
    if (!options_.tree) {
      stream_tokens_ = most;
    } else if (const auto decision = decide(); decision.stream) {
      look_after_ = decision.look_after;
      stream_tokens_ = decision.ends_there ? std::min(most, look_after_) : most;
    }
  }
  if (stream_tokens_ == 0 && rows_lacking_) wanted_ = Wanted::tokens;
}

DraftControl::Decision Generation::decide() {
  const DraftControl::Decision decision = control_.decide(affordable_tree());
  if (decision.stream) stats_.streamed_because = control_.why();
  if (control_.changed() && parts_.on_decision) {
    parts_.on_decision((decision.stream ? "streams: " : "drafts: ") + control_.why());
  }
  return decision;
}

// Ends a stream before its time; the server's part of it is dropped.
void Generation::end_stream() {
  if (!in_flight_) return;
  (void)parts_.link.send(CancelRequest{});
  in_flight_ = false;
}

// A stream goes on unless drafting has become better.
void Generation::look_again() {
  if (!options_.tree || streamed_since_look_ < look_after_) return;
  streamed_since_look_ = 0;
  if (decide().stream) return;
  end_stream();
  // No root is known now; with the next one come the activations.
  wanted_ = Wanted::tokens;
}

void Generation::on_verdict(const VerdictReceived& event) {
  const Instant taken = parts_.now();
  const bool streamed = event.to == VerdictReceived::To::draft && streaming_;
  const std::uint32_t count_before = answer_count();
  ++stats_.target_calls;
  if (event.verdict.pace_us > 0) ++stats_.paced_passes;
  if (event.verdict.computed_us > event.verdict.pace_us) ++stats_.late_passes;
  row_budget_ = event.verdict.row_budget;
  wanted_ = Wanted::draft;
  const Duration round_trip = round_trip_of(event, taken);
  observe(event, round_trip);
  if (streamed) {
    wait_deadline_ = taken + options_.deadline;
    take_streamed(event.verdict);
  } else if (event.to == VerdictReceived::To::draft) {
    take_cycle(event);
  } else {
    if (event.to == VerdictReceived::To::prefill && fresh_session_) session_ = fresh_session_;
    fresh_session_.reset();
    rows_pending_ = rows_pending_ && activations_end_ + 1 < event.verdict.length;
    // A draft without them would be poor. They follow the verdict, so that a wait as long as the
    // one for it costs no more than a poor draft's cycle.
    if (rows_pending_) rows_deadline_ = parts_.now() + (parts_.now() - sent_);
    take_check(event.verdict);
  }
  settled_count_ = ledger_.count();
  // A token beyond tokens_max was not written, and ends nothing.
  const bool written = ledger_.tokens().back() == event.verdict.next;
  end_where_due(written ? event.verdict.ending : wire::Ending::none);
  note_verdict(event, round_trip, count_before);
  stream_begins_ = false;
  if (end_) return;
  if (event.more) {
    look_again();
  } else {
    plan_next();
  }
}

// Of a stream's later verdicts the time since the one before.
Duration Generation::round_trip_of(const VerdictReceived& event, Instant taken) {
  const Instant received = event.times ? event.times->received : taken;
  const Instant before = std::exchange(last_received_, received);
  const bool draft = event.to == VerdictReceived::To::draft;
  if (draft && streaming_ && !stream_begins_) return received - before;
  return received - (event.times ? event.times->sent : draft ? drafted_at_ : sent_);
}

void Generation::observe(const VerdictReceived& event, Duration round_trip) {
  const wire::Verdict& v = event.verdict;
  const Duration server = std::chrono::microseconds(std::uint64_t{v.queue_us} + v.verify_us);
  const Duration link =
      std::max(Duration::zero(), round_trip - server - std::chrono::microseconds(v.draft_us));
  control_.expect_crowd(v.prefers_streams);
  if (v.stream_us > 0) control_.expect_stream(std::chrono::microseconds(v.stream_us));
  if (event.to != VerdictReceived::To::draft) {
    control_.observe_prompt(sent_rows_, link, server);
    std::vector<DraftControl::Expected> expected;
    for (std::size_t size = 0; size < v.outlook_us.size(); ++size) {
      expected.push_back({.server = std::chrono::microseconds(v.outlook_us[size]),
                          .tokens = v.outlook_tokens[size] / double{wire::kOutlookTokenParts}});
    }
    control_.expect_drafts(expected);
  } else if (!streaming_) {
    control_.observe_cycle({.rows = sent_rows_,
                            .levels = drafted_levels_,
                            .tokens = static_cast<std::uint32_t>(v.path.size()) + 1,
                            .drafting = draft_record_.drafting,
                            .link = link,
                            .server = server});
  } else if (stream_begins_) {
    control_.observe_stream_begin(link);
  } else {
    control_.observe_streamed(static_cast<std::uint32_t>(v.tokens.size()) + 1, round_trip);
  }
}

void Generation::take_streamed(const wire::Verdict& verdict) {
  for (const std::uint32_t token : verdict.tokens) write(token, Provenance::verified);
  write(verdict.next, Provenance::verified);
  server_count_ = ledger_.count();
  rows_lacking_ = parts_.drafter && parts_.drafter->activation_cols() > 0;
  const auto accepted = static_cast<std::uint32_t>(verdict.tokens.size());
  ++stats_.cycles;
  stats_.cycle_tokens += accepted + 1;
  stats_.drafted += verdict.drafted;
  stats_.accepted += accepted;
  stats_.streamed_tokens += accepted + 1;
  streamed_since_look_ += accepted + 1;
}

void Generation::take_cycle(const VerdictReceived& event) {
  if (!event.rows.empty() && parts_.drafter) {
    parts_.drafter->add_activations(event.rows_first, event.rows);
    const auto count = static_cast<std::uint32_t>(event.verdict.path.size()) + 1;
    rows_end_ = event.rows_first + count;
    if (!rows_pending_) activations_end_ = rows_end_;
  }
  for (const std::uint8_t row : event.verdict.path) write(tree_.token(row), Provenance::verified);
  write(event.verdict.next, Provenance::verified);
  server_count_ = ledger_.count();
  const auto accepted = static_cast<std::uint32_t>(event.verdict.path.size());
  ++stats_.cycles;
  stats_.cycle_tokens += accepted + 1;
  stats_.accepted += accepted;
}

void Generation::note_verdict(const VerdictReceived& event, Duration round_trip,
                              std::uint32_t count_before) {
  if (!parts_.on_cycle) return;
  CycleRecord record = std::exchange(draft_record_, {});
  record.kind = event.to == VerdictReceived::To::draft ? CycleRecord::Kind::draft
                : checked_                             ? CycleRecord::Kind::resync
                                                       : CycleRecord::Kind::prompt;
  record.server = {.queue_us = event.verdict.queue_us,
                   .verify_us = event.verdict.verify_us,
                   .pace_us = event.verdict.pace_us,
                   .computed_us = event.verdict.computed_us,
                   .draft_us = event.verdict.draft_us};
  record.streamed = record.kind == CycleRecord::Kind::draft && streaming_;
  record.rows = record.streamed ? event.verdict.drafted + 1 : sent_rows_;
  record.accepted =
      static_cast<std::uint32_t>(event.verdict.path.size() + event.verdict.tokens.size());
  record.tokens = answer_count() - std::min(count_before, answer_count());
  record.round_trip = round_trip;
  if (event.times) {
    const Instant before_request = record.kind == CycleRecord::Kind::draft ? drafted_at_ : sent_;
    const bool goes_on = record.streamed && !stream_begins_;
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
