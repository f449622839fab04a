#include "server/passes/pass_loop.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <variant>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

Error session_unknown() {
  return {Errc::session_unknown, "the server no longer has this session"};
}

// What the answer holds before a token has to be known: an answer that began behind the text would
// hold the tokens of a draft that are no part of it.
bool begins_within(const PrefillRequest& request) {
  const std::uint64_t given =
      std::uint64_t{request.base_count} + request.tokens.size() - request.provisional_count;
  return !request.law || request.law->constraints().answer_begin <= given;
}

}  // namespace

PassLoop::PassLoop(const SessionParts& parts, const PassLoopOptions& options,
                   std::function<Instant()> now)
    : decoder_(parts.decoder),
      options_(options),
      now_(std::move(now)),
      metrics_(options.metrics),
      probe_(parts.decoder.backend()),
      sessions_(parts, options.sessions, now_),
      delivery_({.speculation = options.speculation, .metrics = metrics_, .now = now_}),
      admission_(sessions_, delivery_, options.sessions.waiting_max),
      planner_({.pass_rows_max = options.pass_rows_max, .prompt_rows = options.prompt_rows}) {
  EDGEDRAFT_CHECK(options.prompt_rows >= 1 && options.prompt_rows < options.pass_rows_max &&
                  options.pass_rows_max <= kMaskRowsMax);
  metrics_->sessions_max.set(options.sessions.sessions_max);
  metrics_->kv_bytes_max.set(sessions_.memory().bytes);
}

PassLoop::StartReport PassLoop::measure_costs(Duration time_max) {
  EDGEDRAFT_CHECK(sessions_.count() == 0);
  KvCache cache = sessions_.scratch_cache();
  EDGEDRAFT_CHECK(cache.reserve(options_.pass_rows_max));
  const Instant started = now_();
  StartReport report{
      .passes = measure_start_costs(
          decoder_, cache, {.time_max = time_max, .rows_max = options_.pass_rows_max, .now = now_}),
      .took = now_() - started};
  for (StartSample& pass : report.passes) {
    if (options_.pace) pass.time = std::max(pass.time, options_.pace(pass.rows));
    costs_.anchor(pass.rows, pass.time);
    metrics_->health.pass_took(pass.time);
  }
  return report;
}

void PassLoop::begin(const Client& client, const TargetWork& request, Instant posted) {
  try {
    const bool at_work = std::any_of(turns_.begin(), turns_.end(), [&](const Request& earlier) {
      return earlier.client.connection_id == client.connection_id;
    });
    EDGEDRAFT_SESSION_CHECK(!at_work);
    std::visit([&](const auto& r) { begin(Job{.client = client, .posted = posted}, r); }, request);
  } catch (const std::exception&) {
    drop_requests(client.connection_id);  // they would be left without their session
    give_up(client, round_of(request), std::current_exception());
  }
  count_sessions();
}

void PassLoop::cancel(std::uint64_t connection_id, std::uint32_t round) {
  delivery_.drop_rows(connection_id);
  std::erase_if(turns_, [&](const Request& request) {
    if (request.client.connection_id != connection_id || request.round != round) return false;
    admission_.leave(request);
    return true;
  });
}

void PassLoop::end(std::uint64_t connection_id) {
  delivery_.drop_rows(connection_id);
  drop_requests(connection_id);
  sessions_.release(connection_id);
}

bool PassLoop::idle() const {
  return !delivery_.owes_rows() &&
         std::none_of(turns_.begin(), turns_.end(), [](const Request& r) { return r.ready(); });
}

void PassLoop::step() {
  look_for_pauses();
  refuse_overdue();
  choose_hints();
  count_held();
  admission_.admit(turns_);
  if (const std::vector<RowShare> planned = plan(); !planned.empty()) {
    std::vector<PassShare> shares;
    const auto failed = run(planned, shares);
    settle(planned, shares, failed);
    // Only after every answer has been given.
    begin_next_steps();
  }
  try {
    delivery_.send_owed_rows(sessions_);
  } catch (const std::exception& e) {
    device_failed(e);
  }
  look_for_pauses();
  count_sessions();
}

// --- what clients ask for ---

void PassLoop::begin(const Job& job, const wire::Prefill& request) {
  // Rows still owed for an earlier prompt are no longer wanted.
  delivery_.drop_rows(job.client.connection_id);
  const Session* const known = sessions_.find(job.client.connection_id);
  if (request.base_length > 0 && known == nullptr) {
    delivery_.refuse(job.client, request.round, Refusal::session_unknown, session_unknown());
    return;
  }
  const bool keep = request.policy == wire::ResyncPolicy::keep;
  Prompt prompt{.tokens = {.base_count = request.base_length,
                           .tokens = request.tokens,
                           .provisional_count = keep ? 0 : request.provisional_count,
                           .sampling = request.sampling},
                .round = request.round,
                .as = {.kept_count = keep ? request.provisional_count : 0,
                       .is_new = !request.tokens.empty(),
                       .rows_from = request.activations_from}};
  if (!may_begin(job, known, request.run, request.constraints, prompt)) return;
  const auto make = [&] {
    return sessions_.find_or_make(job.client.connection_id, job.client.session,
                                  job.client.identity);
  };
  auto session = make();
  if (!session && admission_.give_up_paused(turns_, now_() - options_.sessions.idle_grace)) {
    session = make();
  }
  if (!session) {
    delivery_.refuse(job.client, request.round, refusal_of(session.error().code), session.error());
    return;
  }
  begin_prompt(job, **session, request.run, std::move(prompt));
}

void PassLoop::begin(const Job& job, const wire::Resume& request) {
  delivery_.drop_rows(job.client.connection_id);
  const auto session = sessions_.resume(job.client.connection_id, request, job.client.identity);
  (session ? metrics_->resumed_sessions : metrics_->unknown_sessions).add();
  if (!session) {
    delivery_.refuse(job.client, request.round, refusal_of(session.error().code), session.error());
    return;
  }
  // The end of its earlier connection may not be known yet; one that is alive waits for an answer.
  std::erase_if(turns_, [&](const Request& earlier) {
    if (earlier.session != *session) return false;
    admission_.leave(earlier);
    delivery_.refuse(earlier.client, earlier.round, Refusal::session_unknown,
                     {Errc::session_unknown, "another connection has taken this session over"});
    return true;
  });
  const bool keep = request.policy == wire::ResyncPolicy::keep;
  const auto count = static_cast<std::uint32_t>(request.tokens.size());
  Prompt prompt{.tokens = {.base_count = request.verified_length,
                           .tokens = request.tokens,
                           .provisional_count = keep ? 0 : count,
                           .sampling = request.sampling},
                .round = request.round,
                .as = {.kept_count = keep ? count : 0,
                       .is_new = count > 0,
                       .rows_from = request.activations_from}};
  if (!may_begin(job, *session, request.run, request.constraints, prompt)) return;
  begin_prompt(job, **session, request.run, std::move(prompt));
}

bool PassLoop::may_begin(const Job& job, const Session* session, const wire::RunTerms& terms,
                         const Constraints& constraints, Prompt& prompt) {
  const auto refuse = [&](Refusal why, Error error) {
    delivery_.refuse(job.client, prompt.round, why, std::move(error));
    return false;
  };
  auto law = sessions_.law_of(job.client.identity,
                              session != nullptr ? session->target.law() : nullptr, constraints);
  if (!law) {
    const bool for_time = law.error().code == Errc::refused;
    return refuse(for_time ? Refusal::grammars : Refusal::invalid, law.error());
  }
  prompt.tokens.law = *std::move(law);
  prompt.tokens.logprobs_per_token = terms.logprobs;
  if (session != nullptr && prompt.tokens.base_count > session->target.tokens().size()) {
    return refuse(Refusal::session_unknown, session_unknown());
  }
  if (!begins_within(prompt.tokens)) {
    return refuse(Refusal::invalid,
                  {Errc::protocol, "the answer is said to begin behind the text"});
  }
  if (session != nullptr) return true;
  const auto checked = sessions_.check_first(prompt.tokens);
  return checked || refuse(refusal_of(checked.error().code), checked.error());
}

void PassLoop::begin_prompt(const Job& job, Session& session, const wire::RunTerms& terms,
                            Prompt prompt) {
  if (answer_decided(job, session, terms, prompt)) return;
  if (auto begun = session.target.begin(prompt.tokens); !begun) {
    delivery_.refuse(job.client, prompt.round, refusal_of(begun.error().code), begun.error());
    return;
  }
  metrics_->prompt_tokens.add(prompt.tokens.tokens.size());
  const auto tokens = session.target.tokens();
  prompt.as.run = run_behind(tokens.first(tokens.size() - prompt.tokens.provisional_count), terms);
  Request request{.client = job.client,
                  .session = &session,
                  .round = prompt.round,
                  .posted = job.posted,
                  .work = std::move(prompt.as)};
  // What has entered has its turn, whatever fails.
  turns_.push_back(std::move(request));
  if (!admission_.enter(turns_.back())) turns_.pop_back();
}

std::uint32_t PassLoop::drafted_sessions(const Session& with) const {
  const auto others = std::ranges::count_if(turns_, [&](const Request& request) {
    const RunRequest* const of = request.run();
    return of != nullptr && !of->run->in_lockstep() && request.session != &with &&
           !request.paused();
  });
  return static_cast<std::uint32_t>(others) + 1;
}

Drafted PassLoop::own_draft(Session& session, std::uint32_t tokens_left, bool weighed_by_caller) {
  if (options_.speculation == nullptr) return {};
  const auto make_room = [&] {
    if (sessions_.give_up_proposer(session)) return true;
    metrics_->steps_without_drafter.add();
    return false;
  };
  return options_.speculation->draft(session.target, session.proposer,
                                     {.tokens_left = tokens_left,
                                      .sessions = drafted_sessions(session),
                                      .costs = costs_,
                                      .rows_max = options_.pass_rows_max - options_.prompt_rows,
                                      .weighed_by_caller = weighed_by_caller,
                                      .make_room = make_room});
}

// --- passes ---

// At the beginning of a step and at its end: a client pauses by an answer that it does not read, or
// that uses its credit up, and then there may be no step for long.
void PassLoop::look_for_pauses() {
  paused_count_ = 0;
  for (Request& request : turns_) {
    if (request.paused()) {
      request.was_paused = true;
      ++paused_count_;
    } else if (request.was_paused) {
      request.go_on(now_());
    }
  }
  metrics_->requests_paused.set(paused_count_);
}

void PassLoop::refuse_overdue() {
  if (options_.wait_max == Duration::zero()) return;
  const Instant now = now_();
  std::erase_if(turns_, [&](const Request& request) {
    // What it waits for hints is no lack of a turn.
    if (request.started || request.was_paused || request.held()) return false;
    if (now - request.posted < options_.wait_max) return false;
    admission_.turn_away(
        request, Refusal::deadline,
        {Errc::refused, "the server is too busy: the request waited " +
                            std::to_string(std::lround(seconds(options_.wait_max))) +
                            " s without a turn"});
    return true;
  });
}

std::vector<RowShare> PassLoop::plan() {
  // Some that are ready may find no place in the pass. The others follow their drafts further then,
  // but their rows of a text to check stay as they are planned here.
  const auto searching = std::ranges::count_if(turns_, [](const Request& request) {
    return request.ready() && request.session->target.choosing_searches();
  });
  const std::uint32_t searched_max = searched_path_max(static_cast<std::size_t>(searching));
  std::vector<RowClaim> claims;
  claims.reserve(turns_.size());
  for (const Request& request : turns_) {
    const std::uint32_t rows =
        request.ready() ? request.session->target.rows_wanted(searched_max) : 0;
    claims.push_back({.rows = rows, .divisible = request.is_prompt()});
  }
  return planner_.plan(claims, [&](std::size_t i) { return sessions_.grow(*turns_[i].session); });
}

std::optional<DeviceError> PassLoop::run(std::span<const RowShare> plan,
                                         std::vector<PassShare>& shares) {
  const Instant started = now_();
  metrics_->requests_running.set(plan.size());
  for (const RowShare& share : plan) {
    Request& request = turns_[share.claim];
    // Its client has begun to read since the look.
    if (request.was_paused) request.go_on(started);
    if (!request.started) request.started = started;
    shares.push_back({.session = &request.session->target, .rows_max = share.rows});
  }
  try {
    const std::uint32_t rows = run_pass(decoder_, shares);
    if (options_.pace) options_.wait_until(started + options_.pace(rows));
    if (rows == 0) return std::nullopt;
    ++count_.passes;
    count_.rows += rows;
    costs_.add(rows, now_() - started);
    if (options_.speculation != nullptr) options_.speculation->observe_pass(rows, now_() - started);
    metrics_->pass(rows, now_() - started);
    remember(plan);
    return std::nullopt;
  } catch (const std::exception& e) {
    device_failed(e);
    sessions_.distrust();
    return DeviceError(e.what());
  }
}

void PassLoop::remember(std::span<const RowShare> plan) {
  // In order of the turns: the index gives pages up in the order in which they were added.
  std::vector<std::size_t> claims;
  for (const RowShare& share : plan) claims.push_back(share.claim);
  std::sort(claims.begin(), claims.end());
  for (const std::size_t claim : claims) sessions_.remember(*turns_[claim].session);
}

void PassLoop::settle(std::span<const RowShare> plan, const std::vector<PassShare>& shares,
                      const std::optional<DeviceError>& failed) {
  const Instant finished = now_();
  metrics_->requests_running.set(0);
  for (std::size_t i = 0; i < plan.size(); ++i) turns_[plan[i].claim].share = &shares[i];
  // In place, so that whatever fails on the way finds all in turns_ that have no answer yet.
  std::stable_partition(turns_.begin(), turns_.end(),
                        [](const Request& request) { return request.share == nullptr; });
  std::erase_if(turns_, [&](Request& request) {
    const PassShare* const share = std::exchange(request.share, nullptr);
    if (share == nullptr || answer(request, *share, failed, finished)) return false;
    request.client.reply.reset();  // give_up_all() is not to answer it again
    return true;
  });
}

bool PassLoop::answer(Request& request, const PassShare& share,
                      const std::optional<DeviceError>& failed, Instant finished) {
  if (failed) {
    give_up(request.client, request.round, *failed);
    return false;
  }
  if (share.fault) {
    give_up(request.client, request.round, *share.fault);
    return false;
  }
  try {
    return !share.outcome || delivery_.answer(request, *share.outcome, finished);
  } catch (const std::exception&) {
    // The session has gone on, its client has not.
    give_up(request.client, request.round, std::current_exception());
    return false;
  }
}

void PassLoop::begin_next_steps() {
  std::erase_if(turns_, [&](Request& request) {
    RunRequest* const run = request.run();
    if (run == nullptr || request.session->target.busy()) return false;
    try {
      begin_step(*request.session, *run);
    } catch (const std::exception&) {
      give_up(request.client, request.round, std::current_exception());
      return true;
    }
    request.posted = now_();
    request.started.reset();
    return false;
  });
}

// --- what goes wrong, and what is counted ---

void PassLoop::drop_requests(std::uint64_t connection_id) {
  std::erase_if(turns_, [&](const Request& request) {
    if (request.client.connection_id != connection_id) return false;
    admission_.leave(request);
    return true;
  });
}

void PassLoop::give_up(const Client& client, std::uint32_t round, const SessionFault& fault) {
  options_.on_session_fault(fault.what());
  sessions_.forget(client.connection_id);
  delivery_.refuse(
      client, round, Refusal::fault,
      {Errc::refused, "the server had to drop the session for a fault of its own: try again"});
}

void PassLoop::give_up(const Client& client, std::uint32_t round, const std::exception& failure) {
  // Its tokens and its cache may disagree now; the client can fill a new one.
  sessions_.forget(client.connection_id);
  delivery_.refuse(client, round, Refusal::device, {Errc::refused, failure.what()});
}

void PassLoop::give_up(const Client& client, std::uint32_t round,
                       const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const SessionFault& e) {
    give_up(client, round, e);
  } catch (const std::exception& e) {
    device_failed(e);
    give_up(client, round, e);
  }
}

void PassLoop::give_up_all(const std::exception& failure) {
  device_failed(failure);
  for (const Request& request : turns_) {
    // Removing some may have been broken off: such a one stands further up.
    if (request.client.reply == nullptr) continue;
    give_up(request.client, request.round, failure);
  }
  turns_.clear();
  admission_.clear();
  look_for_pauses();
}

void PassLoop::device_failed(const std::exception& failure) {
  metrics_->device_failures.add();
  metrics_->health.device_failed(failure.what(), !probe_.device_answers());
}

void PassLoop::count_held() {
  const auto held = std::ranges::count_if(
      turns_, [](const Request& request) { return request.held() && !request.paused(); });
  metrics_->requests_held.set(static_cast<std::uint64_t>(held));
}

void PassLoop::count_sessions() {
  metrics_->sessions.set(sessions_.count());
  const SessionStore::Memory memory = sessions_.memory();
  metrics_->kv_bytes.set(memory.bytes / memory.pages * memory.pages_held);
  metrics_->kv_tokens_reused.set(memory.tokens_reused);
  metrics_->evicted_sessions.set(memory.evictions);
  metrics_->prompts_waiting.set(waiting_count());
}

}  // namespace edgedraft
