#include "server/passes/pass_loop.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "server/sessions/tap_rows.h"
#include "shared/base/check.h"
#include "shared/protocol/activation_codec.h"

namespace edgedraft {
namespace {

std::uint32_t microseconds(Duration d) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(d).count());
}

wire::Ending to_wire(Finish finish) {
  switch (finish) {
    case Finish::none:
      return wire::Ending::none;
    case Finish::end_token:
      return wire::Ending::end_token;
    case Finish::context:
      return wire::Ending::context;
  }
  return wire::Ending::none;
}

Error session_unknown() {
  return {Errc::session_unknown, "the server no longer has this session"};
}

// Requires  what decode() has checked: parents that are there, and no more nodes than a tree takes
DraftTree tree_of(const wire::Draft& draft) {
  DraftTree tree;
  for (std::size_t i = 0; i < draft.parents.size(); ++i) {
    tree.add(draft.tokens[i], draft.parents[i]);
  }
  return tree;
}

}  // namespace

std::uint32_t round_of(const TargetWork& request) {
  return std::visit([](const auto& r) { return r.round; }, request);
}

PassLoop::PassLoop(const SessionParts& parts, const PassLoopOptions& options,
                   std::function<Instant()> now)
    : decoder_(parts.decoder),
      options_(options),
      now_(std::move(now)),
      metrics_(options.metrics),
      probe_(parts.decoder.backend()),
      sessions_(parts, options.sessions, now_),
      budget_(options.pass_rows_max),
      row_budget_(options.row_budget > 0 ? options.row_budget : budget_.rows_for(1)) {
  EDGEDRAFT_CHECK(options.prompt_rows >= 1 && options.prompt_rows < options.pass_rows_max &&
                  options.pass_rows_max <= kMaskRowsMax &&
                  options.row_budget <= options.pass_rows_max);
  metrics_->sessions_max.set(options.sessions.sessions_max);
  metrics_->kv_bytes_max.set(sessions_.memory().bytes);
  metrics_->row_budget.set(row_budget_);
}

PassLoop::StartReport PassLoop::measure_costs(Duration time_max, std::span<Tap* const> taps) {
  EDGEDRAFT_CHECK(sessions_.count() == 0);
  KvCache cache = sessions_.scratch_cache();
  EDGEDRAFT_CHECK(cache.reserve(options_.pass_rows_max));
  const Instant started = now_();
  const StartCosts costs = measure_start_costs(
      decoder_, cache,
      {.time_max = time_max, .rows_max = options_.pass_rows_max, .taps = taps, .now = now_});
  StartReport report{.passes = costs.passes, .took = now_() - started};
  for (StartCosts::Sample& pass : report.passes) {
    if (options_.pace) pass.time = std::max(pass.time, options_.pace(pass.count));
    budget_.anchor_pass(pass.count, pass.time);
  }
  for (const StartCosts::Sample& delivery : costs.deliveries) {
    budget_.anchor_delivery(delivery.count, delivery.time);
  }
  count_busy_sessions(now_());
  return report;
}

void PassLoop::cancel(std::uint64_t connection_id, std::uint32_t round) {
  drop([=](std::uint64_t connection, std::uint32_t r) {
    return connection == connection_id && r == round;
  });
}

void PassLoop::end(std::uint64_t connection_id) {
  drop([=](std::uint64_t connection, std::uint32_t) { return connection == connection_id; });
  sessions_.release(connection_id);
}

void PassLoop::let_go(const Active& active) {
  active.session->target.abandon();
  waiting_count_ -= active.waits ? 1 : 0;
}

void PassLoop::turn_away(const Active& active, Refusal why, Error error) {
  const bool is_prompt = active.session->target.divisible();
  let_go(active);
  if (is_prompt) sessions_.forget(active.client.connection_id);
  refuse(active.client, active.round, why, std::move(error));
}

void PassLoop::drop_owed(const Client& client) {
  std::erase_if(owed_, [&](const RowsOwed& owed) {
    return owed.client.connection_id == client.connection_id;
  });
}

void PassLoop::refuse(const Client& client, std::uint32_t round, Refusal why, Error error) {
  metrics_->refused(why);
  client.reply->refuse(round, std::move(error));
}

void PassLoop::give_up(const Client& client, std::uint32_t round, const SessionFault& fault) {
  options_.on_session_fault(fault.what());
  sessions_.forget(client.connection_id);
  refuse(client, round, Refusal::fault,
         {Errc::refused, "the server had to drop the session for a fault of its own: try again"});
}

void PassLoop::give_up(const Client& client, std::uint32_t round, const DeviceError& failure) {
  // Its tokens and its cache may disagree now; the client has all that fills a new one.
  sessions_.forget(client.connection_id);
  refuse(client, round, Refusal::device, {Errc::refused, failure.what()});
}

void PassLoop::drop(const std::function<bool(std::uint64_t, std::uint32_t)>& unwanted) {
  std::erase_if(
      owed_, [&](const RowsOwed& owed) { return unwanted(owed.client.connection_id, owed.round); });
  std::erase_if(turns_, [&](const Active& active) {
    if (!unwanted(active.client.connection_id, active.round)) return false;
    let_go(active);
    return true;
  });
}

void PassLoop::begin(const Client& client, const TargetWork& request, Instant posted) {
  try {
    std::visit([&](const auto& r) { begin(Job{.client = client, .posted = posted}, r); }, request);
  } catch (const SessionFault& e) {
    give_up(client, round_of(request), e);
  } catch (const DeviceError& e) {
    device_failed(e);
    give_up(client, round_of(request), e);
  }
  count_sessions();
}

bool PassLoop::idle() const {
  return owed_.empty() && std::all_of(turns_.begin(), turns_.end(), [](const Active& active) {
           return active.waits || active.paused();
         });
}

void PassLoop::step() {
  run_next_pass();
  send_owed_rows();
  count_sessions();
}

void PassLoop::begin(const Job& job, const wire::Prefill& request) {
  drop_owed(job.client);
  if (request.base_length > 0 && sessions_.find(job.client.connection_id) == nullptr) {
    refuse(job.client, request.round, Refusal::session_unknown, session_unknown());
    return;
  }
  const auto session =
      sessions_.find_or_make(job.client.connection_id, job.client.session, job.client.identity);
  if (!session) {
    refuse(job.client, request.round, refusal_of(session.error().code), session.error());
    return;
  }
  const bool keep = request.policy == wire::ResyncPolicy::keep;
  begin_prompt(job, **session,
               {.base_count = request.base_length,
                .tokens = request.tokens,
                .provisional_count = keep ? 0 : request.provisional_count,
                .sampling = request.sampling},
               request.round, keep ? request.provisional_count : 0, request.activations_from);
}

void PassLoop::begin(const Job& job, const wire::Resume& request) {
  drop_owed(job.client);
  const auto session = sessions_.resume(job.client.connection_id, request, job.client.identity);
  (session ? metrics_->resumed_sessions : metrics_->unknown_sessions).add();
  if (!session) {
    refuse(job.client, request.round, refusal_of(session.error().code), session.error());
    return;
  }
  // Its earlier connection may not be known to have ended yet; if it is alive, it waits.
  std::erase_if(turns_, [&](const Active& active) {
    if (active.session != *session) return false;
    let_go(active);
    refuse(active.client, active.round, Refusal::session_unknown,
           {Errc::session_unknown, "another connection has taken this session over"});
    return true;
  });
  const bool keep = request.policy == wire::ResyncPolicy::keep;
  begin_prompt(job, **session,
               {.base_count = request.verified_length,
                .tokens = request.tokens,
                .provisional_count = keep ? 0 : static_cast<std::uint32_t>(request.tokens.size()),
                .sampling = request.sampling},
               request.round, keep ? static_cast<std::uint32_t>(request.tokens.size()) : 0,
               request.activations_from);
}

void PassLoop::begin_prompt(const Job& job, Session& session, const PrefillRequest& request,
                            std::uint32_t round, std::uint32_t kept_count,
                            std::uint32_t rows_from) {
  if (request.base_count > session.target.tokens().size()) {
    refuse(job.client, round, Refusal::session_unknown, session_unknown());
    return;
  }
  if (auto begun = session.target.begin(request); !begun) {
    refuse(job.client, round, refusal_of(begun.error().code), begun.error());
    return;
  }
  metrics_->prompt_tokens.add(request.tokens.size());
  Active active{.client = job.client,
                .session = &session,
                .round = round,
                .posted = job.posted,
                .started = {},
                .kept_count = kept_count,
                .is_new = !request.tokens.empty(),
                .rows_from = rows_from};
  if (admit_or_queue(active)) turns_.push_back(std::move(active));
}

void PassLoop::begin(const Job& job, const wire::Draft& request) {
  Session* const session = sessions_.find(job.client.connection_id);
  // A session of another length has another root than the one below which the client drafted.
  if (!session || session->target.tokens().size() != request.base_length) {
    refuse(job.client, request.round, Refusal::session_unknown, session_unknown());
    return;
  }
  if (auto begun = session->target.begin(tree_of(request)); !begun) {
    refuse(job.client, request.round, refusal_of(begun.error().code), begun.error());
    return;
  }
  Active active{.client = job.client,
                .session = session,
                .round = request.round,
                .posted = job.posted,
                .started = {},
                .valid_from = session->target.valid_count(),
                .rows = session->target.pending_rows(),
                .stream_left = request.stream_tokens};
  if (active.stream_left > 0) {
    session->target.abandon();  // it was begun to see whether it may be
    begin_step(active);
  } else if (session->draft_answered && active.rows > 1) {
    // Behind a prompt it waited for activations, too; a root alone took no drafting.
    budget_.observe_absence(job.posted - session->used);
  }
  turns_.push_back(std::move(active));
}

void PassLoop::begin_step(Active& stream) {
  Session& session = *stream.session;
  stream.drafted = {};
  if (options_.speculation) {
    const auto streams = std::count_if(turns_.begin(), turns_.end(),
                                       [](const Active& active) { return active.stream_left > 0; });
    stream.drafted = options_.speculation->draft(
        session.target, session.proposer,
        {.tokens_left = stream.stream_left,
         .sessions = static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(streams, 1))});
  }
  if (!session.target.begin(stream.drafted.tree)) {
    // A drafter's vocabulary may be filled up beyond the target's.
    stream.drafted = {};
    EDGEDRAFT_SESSION_CHECK(session.target.begin(DraftTree()));
  }
  stream.valid_from = session.target.valid_count();
  stream.rows = session.target.pending_rows();
}

// Who takes part in the next pass; the order of the shares is that of turns_, drafts first.
std::vector<PassShare> PassLoop::share_out() {
  const auto is_prompt = [](const Active& a) { return !a.waits && a.session->target.divisible(); };
  const bool any_prompt = std::any_of(turns_.begin(), turns_.end(), is_prompt);
  std::uint32_t left = options_.pass_rows_max;
  std::uint32_t kept_for_prompts = any_prompt && prompts_first_ ? options_.prompt_rows : 0;

  std::vector<PassShare> shares;
  bool any_draft = false;
  for (const Active& active : turns_) {
    if (active.session->target.divisible() || active.paused()) continue;
    const std::uint32_t rows = active.session->target.pending_rows();
    if (rows > left - kept_for_prompts) break;
    if (!sessions_.grow(*active.session)) continue;
    shares.push_back({.session = &active.session->target, .rows_max = rows, .outcome = {}});
    left -= rows;
    any_draft = true;
    // Behind the first draft prompts have their part.
    if (any_prompt) kept_for_prompts = std::min(options_.prompt_rows, left);
  }
  std::uint32_t for_prompts = any_draft ? std::min(left, options_.prompt_rows) : left;
  prompts_first_ = any_prompt && for_prompts == 0;
  for (const Active& active : turns_) {
    if (for_prompts == 0) break;
    if (!is_prompt(active)) continue;
    const std::uint32_t rows = std::min(for_prompts, active.session->target.pending_rows());
    shares.push_back({.session = &active.session->target, .rows_max = rows, .outcome = {}});
    for_prompts -= rows;
  }
  return shares;
}

void PassLoop::refuse_overdue() {
  if (options_.wait_max == Duration::zero()) return;
  const Instant now = now_();
  std::erase_if(turns_, [&](Active& active) {
    if (active.paused()) {  // it is the client that lets us wait
      active.posted = now;
      active.streamed_at.reset();
    }
    if (active.started || now - active.posted < options_.wait_max) return false;
    turn_away(active, Refusal::deadline,
              {Errc::refused, "the server is too busy: the request waited " +
                                  std::to_string(std::lround(seconds(options_.wait_max))) +
                                  " s without a turn"});
    return true;
  });
}

void PassLoop::run_next_pass() {
  refuse_overdue();
  if (secure_first_draft()) admit_waiting();
  std::vector<PassShare> shares = share_out();
  if (shares.empty()) return;
  const auto share_of = [&](const Active& active) {
    return std::find_if(shares.begin(), shares.end(), [&](const PassShare& share) {
      return share.session == &active.session->target;
    });
  };
  const Instant started = now_();
  metrics_->requests_running.set(shares.size());
  for (Active& active : turns_) {
    if (share_of(active) != shares.end() && !active.started) active.started = started;
  }
  std::optional<DeviceError> failed;
  try {
    const std::uint32_t rows = run_pass(decoder_, shares);
    if (const Duration pace = options_.pace ? options_.pace(rows) : Duration::zero();
        pace > Duration::zero()) {
      const Duration computed = now_() - started;
      for (Active& active : turns_) {
        if (share_of(active) == shares.end()) continue;
        active.pace += pace;
        active.computed += computed;
      }
      options_.wait_until(started + pace);
    }
    if (rows > 0) {
      ++count_.passes;
      count_.rows += rows;
      budget_.observe_pass(rows, now_() - started);
      if (options_.speculation) options_.speculation->observe_pass(rows, now_() - started);
      metrics_->pass(rows, now_() - started);
      remember(shares);
    }
  } catch (const DeviceError& e) {
    device_failed(e);
    failed = e;
    sessions_.distrust();
  }
  const Instant finished = now_();
  metrics_->requests_running.set(0);
  count_busy_sessions(finished);

  // Prompts that go on take their next turn behind the others.
  std::deque<Active> waiting;
  std::deque<Active> going_on;
  for (Active& active : turns_) {
    const auto share = share_of(active);
    if (share == shares.end()) {
      waiting.push_back(std::move(active));
    } else if (failed) {
      give_up(active.client, active.round, *failed);
    } else if (share->fault) {
      give_up(active.client, active.round, *share->fault);
    } else if (share->outcome) {
      try {
        deliver(active, *share->outcome, finished);
        if (active.stream_left > 0) going_on.push_back(std::move(active));
      } catch (const DeviceError& e) {
        // The session has gone on, its client has not.
        device_failed(e);
        give_up(active.client, active.round, e);
      } catch (const SessionFault& e) {
        give_up(active.client, active.round, e);
      }
    } else {
      going_on.push_back(std::move(active));
    }
  }
  turns_ = std::move(waiting);
  std::move(going_on.begin(), going_on.end(), std::back_inserter(turns_));
  // Only now that everyone has an answer.
  std::erase_if(turns_, [&](Active& active) {
    if (active.stream_left == 0 || active.session->target.busy()) return false;
    try {
      begin_step(active);
    } catch (const SessionFault& e) {
      give_up(active.client, active.round, e);
      return true;
    }
    active.posted = now_();
    active.started.reset();
    active.pace = active.computed = {};
    return false;
  });
}

void PassLoop::deliver(Active& active, const Outcome& outcome, Instant finished) {
  count_answer(active, outcome, finished);
  active.session->used = finished;
  active.session->draft_answered =
      std::holds_alternative<VerifiedPath>(outcome) && active.stream_left == 0;
  wire::Verdict verdict{.round = active.round,
                        .queue_us = microseconds(*active.started - active.posted),
                        .verify_us = microseconds(finished - *active.started),
                        .pace_us = microseconds(active.pace),
                        .computed_us = microseconds(active.computed)};
  tell_costs(active, std::holds_alternative<PrefillOutcome>(outcome), verdict);
  std::visit([&](const auto& o) { deliver(active, o, std::move(verdict), finished); }, outcome);
}

void PassLoop::count_busy_sessions(Instant now) {
  // Whoever had an answer within this time, or asked for the first one.
  constexpr Duration kRecently = std::chrono::seconds(1);
  busy_sessions_ = std::max(sessions_.count_used_since(now - kRecently), 1u);
  if (options_.row_budget == 0) row_budget_ = budget_.rows_for(busy_sessions_);
  // A session alone costs nobody anything. The sums leave out that prompts take rows of passes, of
  // which drafts want more than streams do: a gain has to show. What was said is taken back for a
  // larger one only, since all go over at once.
  constexpr double kDraftsWorthIt = 1.02;
  constexpr double kDraftsWorthItAgain = 1.05;
  prefers_streams_ = busy_sessions_ > 1 && !options_.speculation &&
                     budget_.drafts_by_streams(busy_sessions_) <
                         (prefers_streams_ ? kDraftsWorthItAgain : kDraftsWorthIt);
  metrics_->row_budget.set(row_budget_);
}

void PassLoop::tell_costs(const Active& active, bool to_prompt, wire::Verdict& verdict) const {
  const auto in_microseconds = [](double s) {
    return static_cast<std::uint32_t>(std::clamp(std::lround(1e6 * s), 1l, 1l << 30));
  };
  verdict.row_budget = row_budget_;
  verdict.prefers_streams = prefers_streams_;
  if (active.stream_left > 0) return;  // its client measures what it gets
  if (const double streamed =
          options_.speculation ? streamed_.value() : budget_.stream_seconds(busy_sessions_);
      streamed > 0) {
    verdict.stream_us = in_microseconds(streamed);
  }
  if (!to_prompt) return;
  const auto outlook = budget_.outlook(busy_sessions_, active.client.drafter);
  if (!outlook) return;
  const std::size_t sizes = draft_size(verdict.row_budget) + 1;
  for (std::size_t size = 0; size < sizes; ++size) {
    verdict.outlook_us.push_back(in_microseconds(outlook->draft_seconds[size]));
    verdict.outlook_tokens.push_back(static_cast<std::uint8_t>(
        std::clamp(std::lround(wire::kOutlookTokenParts * outlook->tokens[size]), 1l, 255l)));
  }
}

void PassLoop::deliver(Active& active, const PrefillOutcome& outcome, wire::Verdict verdict,
                       Instant /*finished*/) {
  verdict.next = outcome.next;
  verdict.accepted_count = active.kept_count > 0 ? active.kept_count : outcome.accepted_count;
  verdict.ending = to_wire(outcome.finish);
  active.client.reply->verdict(std::move(verdict));
  const std::uint32_t end = active.session->target.valid_count();
  if (!active.client.tap || active.rows_from >= end) return;
  owed_.push_back(
      {.client = active.client, .round = active.round, .first = active.rows_from, .end = end});
}

void PassLoop::deliver(Active& active, const VerifiedPath& path, wire::Verdict verdict,
                       Instant finished) {
  if (active.stream_left > 0) {
    deliver_streamed(active, path, std::move(verdict), finished);
    return;
  }
  const auto tokens = static_cast<std::uint32_t>(path.path.size()) + 1;
  budget_.observe_draft(active.client.drafter, active.rows, tokens);
  verdict.next = path.next;
  verdict.ending = to_wire(path.finish);
  for (const std::uint32_t row : path.path) verdict.path.push_back(static_cast<std::uint8_t>(row));
  const Instant begun = now_();
  if (active.client.tap) {
    verdict.activations =
        quantized_rows(*active.client.tap, active.session->target.cache(), active.valid_from,
                       active.session->target.valid_count() - active.valid_from);
  }
  budget_.observe_delivery(tokens, now_() - begun);
  active.client.reply->verdict(std::move(verdict));
}

void PassLoop::deliver_streamed(Active& stream, const VerifiedPath& path, wire::Verdict verdict,
                                Instant finished) {
  const auto count = static_cast<std::uint32_t>(path.path.size()) + 1;
  if (options_.speculation) options_.speculation->observe_draft(stream.rows, count);
  verdict.next = path.next;
  verdict.ending = to_wire(path.finish);
  const auto brought = stream.session->target.tokens().last(count);
  verdict.tokens.assign(brought.begin(), brought.end() - 1);
  verdict.drafted = stream.rows - 1;
  verdict.draft_us = microseconds(stream.drafted.time);
  stream.stream_left -= count;
  if (stream.streamed_at) streamed_.add(seconds(finished - *stream.streamed_at) / count);
  stream.streamed_at = finished;
  if (path.finish != Finish::none) stream.stream_left = 0;
  stream.client.reply->verdict(std::move(verdict));
}

// A chunk between two passes, of one client after another: a long prompt's rows hold up nobody's
// verdict.
void PassLoop::send_owed_rows() {
  if (owed_.empty()) return;
  RowsOwed owed = std::move(owed_.front());
  owed_.pop_front();
  const Session* const session = sessions_.find(owed.client.connection_id);
  if (!session) return;
  const auto groups = owed.client.tap->scale_groups();
  const ActivationLayout layout({groups.begin(), groups.end()});
  const std::uint32_t count = std::min(chunk_rows(layout), owed.end - owed.first);
  const std::uint32_t first = owed.end - count;
  try {
    owed.client.reply->activations(compress_activations(
        owed.round, first, count,
        quantized_rows(*owed.client.tap, session->target.cache(), first, count)));
  } catch (const DeviceError& e) {
    device_failed(e);
    return;  // its drafter goes without them
  }
  if (first == owed.first) return;
  owed.end = first;
  owed_.push_back(std::move(owed));
}

void PassLoop::count_answer(const Active& active, const Outcome& outcome, Instant finished) {
  metrics_->answered(*active.started - active.posted, finished - *active.started);
  if (const auto* path = std::get_if<VerifiedPath>(&outcome)) {
    metrics_->draft_answered(active.rows - 1, static_cast<std::uint32_t>(path->path.size()),
                             finished - active.session->used);
  } else {
    metrics_->prompt_answered(active.is_new, finished - active.posted);
  }
}

void PassLoop::count_sessions() {
  metrics_->sessions.set(sessions_.count());
  const SessionStore::Memory memory = sessions_.memory();
  metrics_->kv_bytes.set(memory.bytes / memory.pages * memory.pages_held);
  metrics_->kv_tokens_reused.set(memory.tokens_reused);
  metrics_->evicted_sessions.set(memory.evictions);
  metrics_->prompts_waiting.set(waiting_count_);
}

void PassLoop::device_failed(const DeviceError& failure) {
  metrics_->device_failures.add();
  metrics_->health.device_failed(failure.what(), !probe_.device_answers());
}

}  // namespace edgedraft
