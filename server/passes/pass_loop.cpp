#include "server/passes/pass_loop.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <variant>

#include "shared/base/check.h"

namespace edgedraft::server {
namespace {

Error session_unknown() {
  return {Errc::session_unknown, "the server no longer has this session"};
}

// A constraint needs the answer so far, which must begin within the text: tokens of a draft are not
// part of it.
bool begins_within(const PrefillRequest& request) {
  const std::uint64_t given =
      std::uint64_t{request.base_count} + request.tokens.size() - request.provisional_count;
  return !request.filter || request.filter->constraints().answer_begin <= given;
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
      planner_({.pass_rows_max = options.pass_rows_max, .prompt_rows = options.prompt_rows}),
      trees_({.speculation = options.speculation,
              .economy = options.economy,
              .rows_max = std::min(options.pass_rows_max - options.prompt_rows,
                                   parts.decoder.tree_rows_max()),
              .runs = turns_.runs,
              .costs = costs_,
              .sessions = sessions_,
              .metrics = metrics_,
              .now = now_}) {
  EDGEDRAFT_CHECK(options.prompt_rows >= 1 && options.prompt_rows < options.pass_rows_max &&
                  options.pass_rows_max <= kMaskRowsMax);
  metrics_->sessions_max.set(options.sessions.sessions_max);
  metrics_->kv_bytes_max.set(sessions_.memory().bytes);
  metrics_->checkpoints_max.set(sessions_.memory().checkpoints);
}

PassLoop::StartReport PassLoop::measure_costs(Duration time_max) {
  EDGEDRAFT_CHECK(sessions_.count() == 0);
  KvCache cache = sessions_.make_cache();
  EDGEDRAFT_CHECK(cache.reserve(options_.pass_rows_max));
  const Instant started = now_();
  StartReport report{.passes = measure_start_costs(
                         decoder_, cache,
                         {.time_max = time_max,
                          .rows_max = std::min(options_.pass_rows_max, decoder_.tree_rows_max()),
                          .now = now_}),
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
    const bool at_work = turns_.any_of([&](const Request& earlier) {
      return earlier.client.connection_id == client.connection_id;
    });
    EDGEDRAFT_SESSION_CHECK(!at_work);
    if (has_tokens(client, round_of(request))) {
      std::visit([&](const auto& r) { begin_work(client, r, posted); }, request);
    }
  } catch (const std::exception&) {
    drop_requests(client.connection_id);  // they would be left without their session
    give_up(client, round_of(request), std::current_exception());
  }
  count_sessions();
}

void PassLoop::cancel(std::uint64_t connection_id, std::uint32_t round) {
  delivery_.drop_rows(connection_id);
  drop_requests(connection_id, round);
}

void PassLoop::end(std::uint64_t connection_id) {
  delivery_.drop_rows(connection_id);
  drop_requests(connection_id);
  sessions_.release(connection_id);
}

bool PassLoop::idle() const {
  return !delivery_.owes_rows() && !turns_.any_of([](const auto& turn) { return turn.ready(); });
}

void PassLoop::step() {
  look_for_pauses();
  refuse_overdue();
  choose_hints();
  count_held();
  admission_.admit(turns_);
  if (std::vector<PassShare> shares = plan(); !shares.empty()) {
    settle(run(shares));
    // Only after all answers were sent.
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

// --- client requests ---

template <typename Message>
PassLoop::Prompt PassLoop::prompt_of(const Client& client, Session* session, const Message& request,
                                     std::uint32_t base_count, std::uint32_t provisional_count,
                                     Instant posted) {
  const bool keep = request.policy == wire::ResyncPolicy::keep;
  PromptTurn turn{{.client = client, .session = session, .round = request.round, .posted = posted}};
  turn.kept_count = keep ? provisional_count : 0;
  turn.is_new = !request.tokens.empty();
  turn.rows_from = request.activations_from;
  return {.tokens = {.base_count = base_count,
                     .tokens = request.tokens,
                     .provisional_count = keep ? 0 : provisional_count,
                     .sampling = request.sampling,
                     .logprobs_per_token = request.run.logprobs},
          .turn = std::move(turn)};
}

void PassLoop::begin_work(const Client& client, const wire::Prefill& request, Instant posted) {
  // Activations owed for an earlier prompt are obsolete.
  delivery_.drop_rows(client.connection_id);
  Session* const known = sessions_.find(client.connection_id);
  if (request.base_length > 0 && known == nullptr) {
    delivery_.refuse(client, request.round, Refusal::session_unknown, session_unknown());
    return;
  }
  Prompt prompt =
      prompt_of(client, known, request, request.base_length, request.provisional_count, posted);
  if (!may_begin(prompt, request.constraints)) return;
  if (known == nullptr && client.quota.sessions_max > 0) {
    const auto room = sessions_.make_own_room(client.identity, client.quota.sessions_max);
    if (!room) return delivery_.refuse(client, request.round, Refusal::quota, room.error());
  }
  const auto make = [&] {
    return sessions_.find_or_make(client.connection_id, client.session, client.identity);
  };
  auto session = make();
  if (!session && admission_.give_up_paused(turns_.runs, now_() - options_.sessions.idle_grace)) {
    session = make();
  }
  if (!session) {
    delivery_.refuse(client, request.round, refusal_of(session.error().code), session.error());
    return;
  }
  prompt.turn.session = *session;
  begin_prompt(std::move(prompt), request.run);
}

void PassLoop::begin_work(const Client& client, const wire::Resume& request, Instant posted) {
  delivery_.drop_rows(client.connection_id);
  const auto session = sessions_.resume(client.connection_id, request, client.identity);
  (session ? metrics_->resumed_sessions : metrics_->unknown_sessions).add();
  if (!session) {
    delivery_.refuse(client, request.round, refusal_of(session.error().code), session.error());
    return;
  }
  // The end of its earlier connection may not be known yet; a live one waits for an answer.
  turns_.erase_if([&](const auto& earlier) {
    if (earlier.session != *session) return false;
    admission_.leave(earlier);
    delivery_.refuse(earlier.client, earlier.round, Refusal::session_unknown,
                     {Errc::session_unknown, "another connection took over this session"});
    return true;
  });
  Prompt prompt = prompt_of(client, *session, request, request.verified_length,
                            static_cast<std::uint32_t>(request.tokens.size()), posted);
  if (may_begin(prompt, request.constraints)) begin_prompt(std::move(prompt), request.run);
}

bool PassLoop::may_begin(Prompt& prompt, const Constraints& constraints) {
  auto& [tokens, turn] = prompt;
  const auto refuse = [&](Refusal why, Error error) {
    delivery_.refuse(prompt.turn.client, prompt.turn.round, why, std::move(error));
    return false;
  };
  const TargetSession* const target = turn.session != nullptr ? &turn.session->target : nullptr;
  auto filter = sessions_.filter_for(turn.client.identity,
                                     target != nullptr ? target->filter() : nullptr, constraints);
  if (!filter) {
    const bool for_time = filter.error().code == Errc::refused;
    return refuse(for_time ? Refusal::grammars : Refusal::invalid, filter.error());
  }
  tokens.filter = *std::move(filter);
  if (target != nullptr && tokens.base_count > target->tokens().size()) {
    return refuse(Refusal::session_unknown, session_unknown());
  }
  if (!begins_within(tokens)) {
    return refuse(Refusal::invalid, {Errc::protocol, "answer_begin is beyond the end of the text"});
  }
  if (target != nullptr) return true;
  const auto checked = sessions_.check_first(tokens);
  return checked || refuse(refusal_of(checked.error().code), checked.error());
}

void PassLoop::begin_prompt(Prompt prompt, const wire::RunTerms& terms) {
  if (answer_decided(prompt, terms)) return;
  auto& [tokens, turn] = prompt;
  TargetSession& target = turn.session->target;
  if (auto begun = target.begin(tokens); !begun) {
    delivery_.refuse(turn.client, turn.round, refusal_of(begun.error().code), begun.error());
    return;
  }
  metrics_->prompt_tokens.add(tokens.tokens.size());
  const auto known = target.tokens();
  turn.run = run_behind(known.first(known.size() - tokens.provisional_count), terms);
  // An admitted prompt keeps its turn if a later step fails.
  if (!admission_.enter(turns_.add(std::move(turn)))) turns_.prompts.pop_back();
}

// --- passes ---

// Runs at the beginning and end of a step: an unread answer or used-up credit pauses a client, and
// no step may follow for long.
void PassLoop::look_for_pauses() {
  paused_count_ = 0;
  for (RunTurn& turn : turns_.runs) {
    if (turn.paused()) {
      turn.was_paused = true;
      ++paused_count_;
    } else if (turn.was_paused) {
      turn.go_on(now_());
    }
  }
  metrics_->requests_paused.set(paused_count_);
}

void PassLoop::refuse_overdue() {
  if (options_.wait_max == Duration::zero()) return;
  const Instant now = now_();
  turns_.erase_if([&](const auto& turn) {
    if (!turn.lacks_turn() || now - turn.posted < options_.wait_max) return false;
    admission_.turn_away(
        turn, Refusal::deadline,
        {Errc::refused, "the server is too busy: the request waited " +
                            std::to_string(std::lround(seconds(options_.wait_max))) +
                            " s for its first pass"});
    return true;
  });
}

std::vector<PassShare> PassLoop::plan() {
  // Some ready runs may not fit the pass. The others then follow longer drafts, but rows of checked
  // texts stay as planned here.
  std::size_t searching = 0;
  turns_.for_each([&](auto&, auto turn) {
    searching += turn->ready() && turn->session->target.choosing_searches();
  });
  const std::uint32_t searched_max = searched_path_max(searching);
  std::vector<RowClaim> claims;
  std::vector<Request*> claimants;
  const auto claim = [&](auto& turns, bool divisible) {
    for (auto& turn : turns) {
      const std::uint32_t rows = turn.ready() ? turn.session->target.rows_wanted(searched_max) : 0;
      claims.push_back({.rows = rows, .divisible = divisible});
      claimants.push_back(&turn);
    }
  };
  claim(turns_.runs, false);
  claim(turns_.prompts, true);
  const std::vector<RowShare> planned =
      planner_.plan(claims, [&](std::size_t i) { return sessions_.grow(*claimants[i]->session); });
  std::vector<PassShare> shares;
  shares.reserve(planned.size());
  for (const RowShare& share : planned) {
    Request& turn = *claimants[share.claim];
    shares.push_back({.session = &turn.session->target, .rows_max = share.rows});
    turn.share = &shares.back();
  }
  return shares;
}

std::optional<DeviceError> PassLoop::run(std::vector<PassShare>& shares) {
  const Instant started = now_();
  metrics_->requests_running.set(shares.size());
  turns_.for_each([&](auto&, auto turn) {
    if (turn->share != nullptr) turn->start(started);
  });
  try {
    const std::uint32_t rows = run_pass(decoder_, shares);
    if (options_.pace) options_.wait_until(started + options_.pace(rows));
    if (rows == 0) return std::nullopt;
    ++count_.passes;
    count_.rows += rows;
    costs_.add(rows, now_() - started);
    if (options_.speculation != nullptr) options_.speculation->observe_pass(now_() - started);
    metrics_->pass(rows, now_() - started);
    // Shares the full pages these sessions have run, in turn order: the index evicts in order of
    // addition.
    turns_.for_each([&](auto&, auto turn) {
      if (turn->share == nullptr) return;
      charge(*turn);
      sessions_.remember(*turn->session);
    });
    return std::nullopt;
  } catch (const std::exception& e) {
    device_failed(e);
    sessions_.distrust();
    return DeviceError(e.what());
  }
}

void PassLoop::settle(const std::optional<DeviceError>& failed) {
  const Instant finished = now_();
  metrics_->requests_running.set(0);
  turns_.for_each([&](auto& turns, auto turn) {
    const PassShare* const share = std::exchange(turn->share, nullptr);
    if (share == nullptr) return;
    if (answer(*turn, *share, failed, finished)) {
      turns_.requeue(turns, turn);
    } else {
      turns.erase(turn);
    }
  });
}

template <typename T>
bool PassLoop::answer(T& turn, const PassShare& share, const std::optional<DeviceError>& failed,
                      Instant finished) {
  if (failed) {
    give_up(turn.client, turn.round, *failed);
    return false;
  }
  if (share.fault) {
    give_up(turn.client, turn.round, *share.fault);
    return false;
  }
  try {
    if (share.outcome) return deliver(turn, *share.outcome, finished);
    if constexpr (std::is_same_v<T, PromptTurn>) delivery_.reading(turn, finished);
    return true;
  } catch (const std::exception&) {
    // The session has advanced, its client has not.
    give_up(turn.client, turn.round, std::current_exception());
    return false;
  }
}

bool PassLoop::deliver(PromptTurn& prompt, const Outcome& outcome, Instant finished) {
  if (auto run = delivery_.answer(prompt, outcome, finished)) turns_.add(*std::move(run));
  return false;
}

bool PassLoop::deliver(RunTurn& turn, const Outcome& outcome, Instant finished) {
  return delivery_.answer(turn, outcome, finished);
}

// --- quotas ---

bool PassLoop::has_tokens(const Client& client, std::uint32_t round) {
  const std::uint32_t per_minute = client.quota.tokens_per_minute;
  if (per_minute == 0) return true;
  const Duration wait = buckets_.wait(client.identity, per_minute, now_());
  if (wait == Duration::zero()) return true;
  delivery_.refuse(
      client, round, Refusal::quota,
      {Errc::refused, "tenant " + client.identity + " has used up its " +
                          std::to_string(per_minute) + " tokens per minute: try again in " +
                          std::to_string(std::lround(std::ceil(seconds(wait)))) + " s"});
  return false;
}

void PassLoop::charge(const PromptTurn& turn) {
  charge(turn.client, turn.share->rows);
}

void PassLoop::charge(const RunTurn& turn) {
  const std::uint32_t rows = turn.share->rows;
  const std::uint32_t own = turn.run->guessed_count() + turn.probes_run();
  charge(turn.client, rows - std::min(rows, own));
}

void PassLoop::charge(const Client& client, std::uint32_t rows) {
  if (client.quota.tokens_per_minute == 0) return;
  buckets_.charge(client.identity, client.quota.tokens_per_minute, rows, now_());
}

// --- failures and metrics ---

void PassLoop::drop_requests(std::uint64_t connection_id, std::optional<std::uint32_t> round) {
  turns_.erase_if([&](const auto& turn) {
    if (turn.client.connection_id != connection_id || turn.round != round.value_or(turn.round)) {
      return false;
    }
    admission_.leave(turn);
    return true;
  });
}

void PassLoop::give_up(const Client& client, std::uint32_t round, const SessionFault& fault) {
  options_.on_session_fault(fault.what());
  sessions_.forget(client.connection_id);
  delivery_.refuse(
      client, round, Refusal::fault,
      {Errc::refused, "the server dropped the session after an internal error: try again"});
}

void PassLoop::give_up(const Client& client, std::uint32_t round, const std::exception& failure) {
  // Its tokens and cache may disagree; the client can fill a new session.
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
  turns_.erase_if([&](const Request& turn) {
    give_up(turn.client, turn.round, failure);
    return true;
  });
  admission_.clear();
  look_for_pauses();
}

void PassLoop::device_failed(const std::exception& failure) {
  metrics_->device_failures.add();
  metrics_->health.device_failed(failure.what(), !probe_.device_answers());
}

void PassLoop::count_held() {
  const auto held = std::ranges::count_if(
      turns_.runs, [](const RunTurn& turn) { return turn.held_until && !turn.paused(); });
  metrics_->requests_held.set(static_cast<std::uint64_t>(held));
}

void PassLoop::count_sessions() {
  metrics_->sessions.set(sessions_.count());
  const SessionStore::Memory memory = sessions_.memory();
  metrics_->kv_bytes.set(memory.bytes_held);
  metrics_->checkpoints.set(memory.checkpoints_held);
  metrics_->kv_tokens_reused.set(memory.tokens_reused);
  metrics_->evicted_sessions.set(memory.evictions);
  metrics_->prompts_waiting.set(waiting_count());
}

}  // namespace edgedraft::server
