#include "client/generation.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

// How long a wait may last before the user's Ctrl-C is looked at again.
constexpr Duration kWaitSlice = std::chrono::milliseconds(50);

wire::Sampling to_wire(const SamplingParams& params) {
  return {.seed = params.seed,
          .temperature = params.temperature,
          .top_k = params.top_k,
          .top_p = params.top_p,
          .min_p = params.min_p};
}

bool trying_again_may_help(Errc code) {
  return code == Errc::link_down || code == Errc::timed_out || code == Errc::refused;
}

}  // namespace

std::string_view to_string(ClientState state) {
  switch (state) {
    case ClientState::online:
      return "online";
    case ClientState::offline:
      return "offline";
    case ClientState::resyncing:
      return "resyncing";
  }
  return "unknown";
}

std::string_view to_string(CycleRecord::Kind kind) {
  switch (kind) {
    case CycleRecord::Kind::prompt:
      return "prompt";
    case CycleRecord::Kind::draft:
      return "draft";
    case CycleRecord::Kind::resync:
      return "resync";
    case CycleRecord::Kind::offline:
      return "offline";
    case CycleRecord::Kind::state:
      return "state";
  }
  return "unknown";
}

GenerationStats& GenerationStats::operator+=(const GenerationStats& other) {
  prompt_tokens += other.prompt_tokens;
  tokens += other.tokens;
  cycles += other.cycles;
  cycle_tokens += other.cycle_tokens;
  target_calls += other.target_calls;
  drafted += other.drafted;
  accepted += other.accepted;
  offline_tokens += other.offline_tokens;
  rewritten_tokens += other.rewritten_tokens;
  resyncs += other.resyncs;
  paced_passes += other.paced_passes;
  late_passes += other.late_passes;
  late_drafts += other.late_drafts;
  elapsed += other.elapsed;
  first_token_elapsed += other.first_token_elapsed;
  drafting += other.drafting;
  waiting += other.waiting;
  return *this;
}

Generation::Generation(const Parts& parts, const GenerationOptions& options)
    : parts_(parts), options_(options), context_count_(options.context_count) {
  EDGEDRAFT_CHECK(parts.drafter != nullptr || !options.tree);
}

Result<AnswerEnd> Generation::answer(std::span<const std::uint32_t> prompt) {
  EDGEDRAFT_CHECK(!prompt.empty());
  if (auto drained = drain_events(); !drained) return drained.error();
  if (in_flight_) (void)parts_.link.send(CancelRequest{});
  in_flight_ = false;
  const auto known = ledger_.tokens();
  const auto common = static_cast<std::uint32_t>(
      std::mismatch(known.begin(), known.end(), prompt.begin(), prompt.end()).first -
      known.begin());
  drop_from(common);
  for (const std::uint32_t token : prompt.subspan(common)) {
    ledger_.append(token, Provenance::given);
  }
  if (parts_.drafter) parts_.drafter->append(prompt.subspan(common));

  started_ = parts_.now();
  stats_ = {};
  if (parts_.on_cycle) noted_link_ = parts_.link.stats();
  cut_off_ = false;
  stats_.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  answer_first_ = settled_count_ = ledger_.count();
  end_.reset();
  link_closed_ = false;
  wanted_ = Wanted::tokens;
  wait_deadline_ = started_ + options_.deadline;
  state_ = ClientState::online;
  // Where the link is known to be down there is nothing to wait for.
  if (link_error_ && !parts_.drafter) return *link_error_;
  if (link_error_) go_offline(link_error_->message);
  return run();
}

Result<std::optional<AnswerEnd>> Generation::settle() {
  if (!has_text_to_check()) return std::optional<AnswerEnd>();
  if (auto drained = drain_events(); !drained) return drained.error();
  if (!may_ask_again()) return std::optional<AnswerEnd>();
  started_ = parts_.now() - stats_.elapsed;
  begin_resync();
  const auto ended = run();
  if (!ended) return ended.error();
  return std::optional(*ended);
}

Result<AnswerEnd> Generation::run() {
  do {
    while (!end_) {
      if (parts_.cancelled()) {
        if (in_flight_) (void)parts_.link.send(CancelRequest{});
        in_flight_ = false;
        end_ = AnswerEnd::cancelled;
        break;
      }
      const auto step = state_ == ClientState::offline ? step_offline() : step_online();
      if (!step) return step.error();
    }
  } while (state_ == ClientState::offline && *end_ != AnswerEnd::cancelled && wait_for_server());
  stats_.tokens = answer_count();
  stats_.elapsed = parts_.now() - started_;
  return *end_;
}

// Online and resyncing: the server owes us an answer, or the way to it is still being made.
Result<void> Generation::step_online() {
  const Instant before = parts_.now();
  cut_off_where_due();
  if (state_ == ClientState::offline) return {};
  const bool ready = signed_in_ && !in_flight_ && !cut_off_;
  const bool held_back = ready && wanted_ == Wanted::draft && before < rows_deadline_;
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

Result<void> Generation::step_offline() {
  const auto event = parts_.link.wait_event(parts_.now());
  if (event) {
    if (auto taken = on_event(*event); !taken) return taken;
  } else {
    on_error_offline(event.error());
  }
  if (may_ask_again()) begin_resync();
  if (event || state_ != ClientState::offline) return boost::system::in_place_value;

  const Instant before = parts_.now();
  const std::span<const float> logits = parts_.drafter->next_logits();
  if (logits.empty()) {
    end_ = AnswerEnd::context;
    return boost::system::in_place_value;
  }
  const std::uint32_t token = Sampler(options_.sampling).choose(logits, ledger_.count());
  CycleRecord record{.kind = CycleRecord::Kind::offline};
  record.drafted_in = parts_.now() - before;
  record.drafting_pace = keep_pace(before, 1);
  record.drafting = parts_.now() - before;
  stats_.drafting += record.drafting;
  ++stats_.offline_tokens;
  write(token, Provenance::offline);
  record.tokens = 1;
  note(std::move(record));
  end_where_written();
  return boost::system::in_place_value;
}

// An answer that ended offline waits for the server to check it. True where there is to go on.
bool Generation::wait_for_server() {
  if (!has_text_to_check()) return false;
  wait_deadline_ = parts_.now() + options_.resync_wait;
  while (parts_.now() < wait_deadline_ && !parts_.cancelled()) {
    const auto event = parts_.link.wait_event(std::min(wait_deadline_, parts_.now() + kWaitSlice));
    if (event) {
      if (!on_event(*event)) return false;
    } else {
      on_error_offline(event.error());
      if (link_closed_) return false;
    }
    if (may_ask_again()) {
      begin_resync();
      return true;
    }
  }
  return false;
}

void Generation::on_link_down(const Error& error) {
  signed_in_ = in_flight_ = false;
  link_error_ = error;
}

void Generation::on_error_offline(const Error& error) {
  if (error.code == Errc::link_down) on_link_down(error);
  if (trying_again_may_help(error.code) || link_closed_) return;
  // The link will not come back. Told once: it is repeated at every call.
  link_closed_ = true;
  enter(ClientState::offline, error.message);
}

bool Generation::may_ask_again() const {
  return signed_in_ && !in_flight_ && !cut_off_ && parts_.now() >= ask_again_;
}

bool Generation::has_text_to_check() const {
  return !cut_off_ && options_.resync == wire::ResyncPolicy::check &&
         settled_count_ < ledger_.count();
}

void Generation::begin_resync() {
  ++stats_.resyncs;
  end_.reset();
  wanted_ = Wanted::tokens;
  enter(ClientState::resyncing, "the server is back");
}

Result<void> Generation::on_event(const ClientEvent& event) {
  if (const auto* welcomed = std::get_if<Welcomed>(&event)) return on_welcome(welcomed->welcome);
  if (const auto* rows = std::get_if<ActivationsReceived>(&event)) on_activations(*rows);
  if (const auto* refused = std::get_if<RequestRefused>(&event)) return on_refused(refused->error);
  if (const auto* verdict = std::get_if<VerdictReceived>(&event)) {
    const bool to_draft = verdict->to == VerdictReceived::To::draft;
    // Nothing that is still asked.
    if (!in_flight_ || to_draft != (wanted_ == Wanted::draft)) return {};
    in_flight_ = false;
    if (state_ == ClientState::offline) {
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

Result<void> Generation::on_refused(const Error& error) {
  in_flight_ = false;
  if (error.code == Errc::refused && parts_.drafter) {
    // The connection stands, so nothing tells when there is room again.
    ask_again_ = parts_.now() + options_.deadline;
    go_offline(error.message);
    return {};
  }
  if (error.code != Errc::session_unknown) return on_link_error(error);
  session_.reset();
  server_count_ = 0;
  wanted_ = Wanted::tokens;
  return boost::system::in_place_value;
}

Result<void> Generation::on_link_error(const Error& error) {
  if (error.code == Errc::link_down) {
    on_link_down(error);
  } else if (error.code != Errc::timed_out) {  // then the answer may still come
    in_flight_ = false;
    signed_in_ = signed_in_ && parts_.link.state() == LinkState::online;
  }
  const bool hopeless = !trying_again_may_help(error.code);
  link_closed_ = link_closed_ || hopeless;
  if (!parts_.drafter || (hopeless && answer_count() == 0)) return error;
  go_offline(error.message);
  return boost::system::in_place_value;
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
  const auto sent = wanted_ == Wanted::tokens ? send_tokens() : send_draft();
  if (sent) in_flight_ = true;
  return sent;
}

// Puts to the server what it lacks of the ledger; the tokens behind settled_count_ to be checked or
// kept, as the policy says.
Result<void> Generation::send_tokens() {
  std::uint32_t count = ledger_.count();
  const bool to_check = options_.resync == wire::ResyncPolicy::check && count > settled_count_;
  // A full context leaves the server no room for a token of its own: the last one written is held
  // back, to be compared with the server's.
  if (to_check) count = std::clamp(context_count_ - 1, settled_count_, count);
  const std::uint32_t written = count - settled_count_;
  const auto policy = to_check ? wire::ResyncPolicy::check : wire::ResyncPolicy::keep;
  const bool new_connection = fresh_session_.has_value();
  // Resume has no place for given tokens before those to be checked.
  const bool resumes = new_connection && session_ && (!to_check || server_count_ >= settled_count_);
  const std::uint32_t base =
      new_connection && !resumes ? 0 : std::min(server_count_, settled_count_);

  // Rows that came for positions behind the last complete block come again.
  activations_end_ = rows_end_ = std::min(base, activations_end_);
  if (parts_.drafter) {
    parts_.drafter->drop_activations(activations_end_);
    rows_pending_ = parts_.drafter->activation_cols() > 0;
  }
  checked_ = to_check;
  sent_rows_ = count - base;
  if (resumes) {
    return parts_.link.send(
        wire::Resume{.session = *session_,
                     .verified_length = base,
                     .verified_hash = wire::token_hash(ledger_.tokens().first(base)),
                     .tokens = ledger_.safe(base, count - base),
                     .policy = policy,
                     .activations_from = activations_end_,
                     .sampling = to_wire(options_.sampling)});
  }
  return parts_.link.send(wire::Prefill{.base_length = base,
                                        .tokens = ledger_.safe(base, count - base),
                                        .provisional_count = to_check ? written : 0,
                                        .policy = policy,
                                        .activations_from = activations_end_,
                                        .sampling = to_wire(options_.sampling)});
}

Result<void> Generation::send_draft() {
  tree_ = {};
  // The target adds a token of its own behind the tree.
  const std::uint32_t depth_max = options_.tokens_max - answer_count() - 1;
  if (options_.tree && depth_max > 0) {
    const Instant before = parts_.now();
    TreeShape shape = *options_.tree;
    shape.depth = std::min(shape.depth, depth_max);
    shape.nodes = std::min(shape.nodes, nodes_max_);
    if (row_budget_ > 0) shape.nodes = std::min(shape.nodes, row_budget_ - 1);
    shape.depth = std::min(shape.depth, shape.nodes);
    if (shape.nodes > 0) tree_ = parts_.drafter->draft(shape);
    draft_record_.drafted_in = parts_.now() - before;
    draft_record_.drafting_pace = keep_pace(before, shape.depth);
    draft_record_.drafting = parts_.now() - before;
    stats_.drafting += draft_record_.drafting;
  }
  stats_.drafted += tree_.node_count();
  sent_rows_ = tree_.row_count();
  drafted_at_ = parts_.now();
  const auto parents = tree_.parents();
  return parts_.link.send(wire::Draft{.base_length = ledger_.count(),
                                      .tokens = ledger_.safe_draft(tree_.tokens()),
                                      .parents = {parents.begin(), parents.end()}});
}

void Generation::on_verdict(const VerdictReceived& event) {
  const Instant taken = parts_.now();
  const std::uint32_t count_before = answer_count();
  ++stats_.target_calls;
  if (event.verdict.pace_us > 0) ++stats_.paced_passes;
  if (event.verdict.computed_us > event.verdict.pace_us) ++stats_.late_passes;
  row_budget_ = event.verdict.row_budget;
  wanted_ = Wanted::draft;
  if (event.to == VerdictReceived::To::draft) {
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
  note_verdict(event, taken, count_before);
}

// Experiments cut the link at a token, wherever in a verdict that falls.
void Generation::cut_off_where_due() {
  if (!options_.offline_after || answer_count() < *options_.offline_after || end_) return;
  cut_off_ = true;
  // The prompt's activations came with the first token, had the link lasted until then.
  if (rows_pending_ && signed_in_ && parts_.now() < wait_deadline_) return;
  if (parts_.drafter) parts_.drafter->drop_activations(ledger_.count() - 1);
  rows_end_ = std::min(rows_end_, ledger_.count() - 1);
  activations_end_ = std::min(activations_end_, rows_end_);
  go_offline("cut off after " + std::to_string(*options_.offline_after) +
             " tokens, as --offline-after asks");
}

void Generation::note_verdict(const VerdictReceived& event, Instant taken,
                              std::uint32_t count_before) {
  if (!parts_.on_cycle) return;
  CycleRecord record = std::exchange(draft_record_, {});
  record.kind = event.to == VerdictReceived::To::draft ? CycleRecord::Kind::draft
                : checked_                             ? CycleRecord::Kind::resync
                                                       : CycleRecord::Kind::prompt;
  record.server = {.queue_us = event.verdict.queue_us,
                   .verify_us = event.verdict.verify_us,
                   .pace_us = event.verdict.pace_us,
                   .computed_us = event.verdict.computed_us};
  record.rows = sent_rows_;
  record.accepted = static_cast<std::uint32_t>(event.verdict.path.size());
  record.tokens = answer_count() - std::min(count_before, answer_count());
  const Instant before_request = record.kind == CycleRecord::Kind::draft ? drafted_at_ : sent_;
  record.round_trip = taken - before_request;
  if (event.times) {
    record.pack = event.times->sent - before_request;
    record.round_trip = event.times->received - event.times->sent;
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

// It comes too late to be followed, but it shows that the server is there again and, to a prompt,
// that it need not be computed a second time.
void Generation::on_late_verdict(const VerdictReceived& event) {
  if (event.to == VerdictReceived::To::draft) return;
  if (event.to == VerdictReceived::To::prefill && fresh_session_) session_ = fresh_session_;
  fresh_session_.reset();
  server_count_ = settled_count_;
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

void Generation::take_check(const wire::Verdict& verdict) {
  const std::uint32_t written = ledger_.count() - settled_count_;
  std::uint32_t standing = checked_ ? std::min(verdict.accepted_count, written) : written;
  const std::uint32_t kept = settled_count_ + standing;
  // Where an answer ends it also ends offline: that token is no correction.
  const bool repeats = kept < ledger_.count() && ledger_.tokens()[kept] == verdict.next;
  if (repeats) ++standing;
  if (checked_) {
    ledger_.confirm(settled_count_, standing);
    parts_.observer.on_confirmed(settled_count_ + standing - answer_first_);
  }
  const std::uint32_t rewritten = written - standing;
  stats_.rewritten_tokens += rewritten;
  if (rewritten > 0) {
    drop_from(settled_count_ + standing);
    parts_.observer.on_rewrite(answer_count());
  }
  if (state_ == ClientState::resyncing) {
    enter(ClientState::online, checked_ ? std::to_string(standing) + " offline tokens confirmed, " +
                                              std::to_string(rewritten) + " rewritten"
                                        : std::to_string(standing) + " offline tokens kept");
  }
  if (!repeats) write(verdict.next, Provenance::verified);
  server_count_ = ledger_.count();
}

void Generation::write(std::uint32_t token, Provenance provenance) {
  // The target may bring more than was asked for.
  if (answer_count() == options_.tokens_max) return;
  const bool dropped = options_.offline_after && provenance == Provenance::verified &&
                       answer_count() >= *options_.offline_after;
  if (dropped) return;
  ledger_.append(token, provenance);
  if (parts_.drafter) parts_.drafter->append(std::span(&token, 1));
  if (answer_count() == 1) stats_.first_token_elapsed = parts_.now() - started_;
  parts_.observer.on_token(token, ledger_.provenance(ledger_.count() - 1));
}

void Generation::end_where_due(wire::Ending ending) {
  if (ending == wire::Ending::end_token) {
    end_ = AnswerEnd::end_token;
  } else if (answer_count() >= options_.tokens_max) {
    end_ = AnswerEnd::tokens_max;
  } else if (ending == wire::Ending::context) {
    end_ = AnswerEnd::context;
  }
}

void Generation::end_where_written() {
  const bool full = context_count_ > 0 && ledger_.count() >= context_count_;
  end_where_due(parts_.is_end(ledger_.tokens().back()) ? wire::Ending::end_token
                : full                                 ? wire::Ending::context
                                                       : wire::Ending::none);
}

void Generation::go_offline(const std::string& why) {
  if (state_ == ClientState::offline) return;
  enter(ClientState::offline, why);
  // The text may have been whole already, and only its check was lost.
  if (answer_count() > 0) end_where_written();
}

void Generation::enter(ClientState state, const std::string& why) {
  state_ = state;
  parts_.observer.on_state(state, why);
  note({.kind = CycleRecord::Kind::state, .state = state, .why = why});
}

void Generation::drop_from(std::uint32_t count) {
  ledger_.truncate(count);
  settled_count_ = std::min(settled_count_, count);
  server_count_ = std::min(server_count_, count);
  activations_end_ = std::min(activations_end_, count);
  rows_end_ = std::min(rows_end_, count);
  if (parts_.drafter) parts_.drafter->truncate(count);
}

Duration Generation::keep_pace(Instant started, std::uint32_t steps) {
  const Duration pace = std::max(options_.pace, options_.step_pace * steps);
  if (pace <= Duration::zero()) return pace;
  if (parts_.now() > started + pace) ++stats_.late_drafts;
  std::this_thread::sleep_until(started + pace);
  return pace;
}

}  // namespace edgedraft
