#include "server/passes/pass_loop.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>
#include <variant>

// Runs: requests that go on by themselves, and the hints for them.
namespace edgedraft {
namespace {

// Rows of hints in a pass while nothing tells what wider passes cost.
constexpr std::uint32_t kFirstHintRows = 7;

}  // namespace

void PassLoop::hints(std::uint64_t connection_id, const wire::Hints& hints, Instant posted) {
  for (Request& request : turns_) {
    if (request.client.connection_id != connection_id || request.round != hints.round) continue;
    Run* run = nullptr;
    if (auto* prompt = std::get_if<PromptRequest>(&request.work)) run = prompt->run.get();
    if (RunRequest* of = request.run()) run = of->run.get();
    if (run == nullptr) return;
    const HintCounts before = run->counts();
    const bool was_paused = request.paused();
    try {
      run->take(hints, posted);
    } catch (const std::exception&) {
      const Client client = request.client;
      drop_requests(connection_id);
      give_up(client, hints.round, std::current_exception());
      return;
    }
    // They may have come while the pass that used the credit up was still under way.
    if (was_paused && !request.paused()) request.go_on(std::max(posted, request.posted));
    count_hints(before, run->counts());
    // What waited for some looks again.
    for (Request& waiting : turns_) waiting.end_hold(posted);
    return;
  }
}

std::optional<Instant> PassLoop::due() const {
  std::optional<Instant> due;
  for (const Request& request : turns_) {
    const RunRequest* const of = request.run();
    if (of == nullptr || !of->held_until || request.paused()) continue;
    due = due ? std::min(*due, *of->held_until) : of->held_until;
  }
  return due;
}

std::unique_ptr<Run> PassLoop::run_behind(std::span<const std::uint32_t> tokens,
                                          const wire::RunTerms& terms) const {
  if (terms.credit == 0) return nullptr;
  return std::make_unique<Run>(terms, tokens, decoder_.config().vocabulary_count);
}

bool PassLoop::answer_decided(const Job& job, Session& session, const wire::RunTerms& terms,
                              Prompt& prompt) {
  std::vector<std::uint32_t> rest;
  const auto outcome = session.target.decided(prompt.tokens, rest);
  if (!outcome) return false;
  const Instant now = now_();
  prompt.as.run = run_behind(session.target.tokens().first(prompt.tokens.base_count), terms);
  Request request{.client = job.client,
                  .session = &session,
                  .round = prompt.round,
                  .posted = job.posted,
                  .work = std::move(prompt.as),
                  .started = now};
  if (!delivery_.answer(request, *outcome, now)) return true;
  request.run()->run->expect(rest);
  begin_step(session, *request.run());
  request.posted = now;
  request.started.reset();
  turns_.push_back(std::move(request));
  return true;
}

void PassLoop::begin_step(Session& session, RunRequest& request) {
  EDGEDRAFT_SESSION_CHECK(session.target.begin(DraftTree()));
  // A pass that has the root alone must not tell of the tree before it.
  request.drafted = {};
  request.drafted_behind = 0;
  request.run->choose(0, static_cast<std::uint32_t>(session.target.tokens().size()));
  request.begun = now_();
  request.held = {};
  request.economy_until = request.begun + economy_wait(*request.run);
}

// As long as an exchange takes.
Duration PassLoop::economy_wait(const Run& run) const {
  using namespace std::chrono_literals;
  constexpr Duration kUnknownDelay = 300ms;
  constexpr Duration kLongestWait = 1s;
  const bool asked = options_.economy != Economy::off && run.economy();
  // A client that does not ask for it may never send a hint: nothing is waited for until it has.
  const bool economy = asked || (options_.economy == Economy::on && run.was_hinted());
  if (!economy || run.hintless()) return Duration::zero();
  const auto delay = run.hint_delay();
  return std::min(delay ? *delay * 3 / 2 + 10ms : kUnknownDelay, kLongestWait);
}

bool PassLoop::drafts_for_gap(const Request& request) const {
  return options_.speculation != nullptr && !joins_hints() && !request.run()->run->has_hints() &&
         options_.speculation->drafts_with(request.session->proposer);
}

std::optional<Instant> PassLoop::worth_waiting(std::span<Request* const> runs,
                                               const PassSoFar& pass, Instant now) const {
  double tokens = pass.tokens;
  std::uint32_t gaps = 0;  // that the server drafts for
  for (const Request* request : runs) {
    for (const double probability : request->run()->run->probabilities()) tokens += probability;
    if (drafts_for_gap(*request)) ++gaps;
  }
  SpeculationBudget::Tree tree;
  if (gaps > 0) {
    const auto expected =
        options_.speculation->expected_tree(streaming_sessions(*runs.front()->session));
    if (!expected) return std::nullopt;  // it is to find out
    tree = *expected;
  }
  // Tokens a second with trees in so many gaps, and what comes in the time that is waited.
  const auto rate = [&](std::uint32_t trees, double hinted, double waited) {
    const double time = forecast_.seen().pass_seconds(pass.rows + trees * (tree.rows - 1));
    return (tokens + trees * (tree.tokens - 1.0) + hinted) / (time + trees * tree.seconds + waited);
  };
  const double pass_time = forecast_.seen().pass_seconds(pass.rows);
  std::optional<Instant> until;
  for (const Request* request : runs) {
    const auto next = request->run()->run->next_hints(now);
    if (!next) continue;
    // Hints that come during the pass serve the one behind it: two passes bring what one brings
    // that waits, and a token more.
    const double longest = pass_time * next->a_pass / (2.0 + next->a_pass);
    if (seconds(next->at - request->run()->begun) > longest) continue;
    const double wait = seconds(next->at - now);
    if (next->tokens / tokens < wait / pass_time) continue;
    const std::uint32_t others = gaps - (drafts_for_gap(*request) ? 1 : 0);
    if (gaps > 0 && rate(others, next->tokens, wait) < rate(gaps, 0.0, 0.0)) continue;
    until = until ? std::min(*until, next->at) : next->at;
  }
  return until;
}

void PassLoop::choose_hints() {
  const Instant now = now_();
  PassSoFar pass{.rows = 0, .tokens = 0.0, .rows_left = 0, .hold_short = false};
  bool any_prompt = false;
  // A client that sends no hints gains nothing from a wait for another's.
  bool any_listener = false;
  std::vector<Request*> runs;
  std::vector<HintOffer> offers;
  for (Request& request : turns_) {
    RunRequest* const of = request.run();
    if (of != nullptr) {
      request.end_hold(now);
      // A paused run waits for its client. Held as well, it would not be ready when that reads
      // again, and nobody would look when it is due.
      const bool may_wait = !of->run->has_hints() && !request.paused();
      if (may_wait && now < of->economy_until) of->held_until = of->economy_until;
    }
    any_prompt |= request.is_prompt() && request.ready();
    if (!request.ready() || request.is_prompt()) continue;
    pass.rows += of != nullptr ? 1 : request.session->target.pending_rows();
    pass.tokens += 1.0;
    // Where the server guesses for all, nobody has nothing to gain from a wider pass.
    pass.hold_short |=
        !joins_hints() && (of == nullptr ? request.is_stream() : of->run->hintless());
    if (of == nullptr) continue;
    any_listener |= !of->run->was_hinted() || of->run->hintless();
    runs.push_back(&request);
  }
  if (runs.empty()) return;
  const bool may_hold = pass.rows == runs.size() && !any_prompt && !any_listener;
  std::vector<const Session*> given_up;
  const auto drop_given_up = [&] {
    std::erase_if(turns_, [&](const Request& request) {
      return std::ranges::find(given_up, request.session) != given_up.end();
    });
  };
  std::erase_if(runs, [&](Request* request) {
    if (guess_beside_hints(*request)) return false;
    given_up.push_back(request->session);
    return true;
  });
  if (const auto until = may_hold ? worth_waiting(runs, pass, now) : std::nullopt) {
    for (Request* request : runs) request->run()->held_until = until;
    return drop_given_up();
  }
  for (Request* request : runs) {
    pass.rows += request->run()->drafted.probes.rows.node_count();
    offers.push_back(request->run()->run->probabilities());
  }
  const std::uint32_t most = options_.pass_rows_max - (any_prompt ? options_.prompt_rows : 0);
  pass.rows_left = most - std::min(most, pass.rows);
  if (!forecast_.seen().knows_passes()) pass.rows_left = std::min(pass.rows_left, kFirstHintRows);
  const auto taken = fill_rows(
      pass, offers, [&](std::uint32_t rows) { return forecast_.seen().pass_seconds(rows); });
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Session* const session = runs[i]->session;
    if (!choose_hints(*runs[i], taken[i])) given_up.push_back(session);
  }
  drop_given_up();
}

bool PassLoop::guess_beside_hints(Request& request) {
  RunRequest& of = *request.run();
  const std::size_t behind = request.session->target.tokens().size();
  if (!joins_hints() || of.drafted_behind == behind) return true;
  return with_session(request, [&](TargetSession& target) {
    of.drafted =
        own_draft(*request.session, of.run->credit() - static_cast<std::uint32_t>(behind), true);
    of.drafted_behind = behind;
    of.run->propose(of.drafted.tree);
    EDGEDRAFT_SESSION_CHECK(target.begin(DraftTree()));
  });
}

bool PassLoop::choose_hints(Request& request, std::uint32_t count) {
  RunRequest& of = *request.run();
  Run& run = *of.run;
  return with_session(request, [&](TargetSession& target) {
    const auto length = static_cast<std::uint32_t>(target.tokens().size());
    run.choose(count, length);
    if (!joins_hints()) {
      of.drafted = {};
      if (run.chosen().empty()) {
        of.drafted = own_draft(*request.session, run.credit() - length, false);
        run.propose(of.drafted.tree);
        run.choose(of.drafted.tree.node_count(), length);
      }
    }
    if (target.begin(run.chosen(), of.drafted.probes)) return;
    // A drafter's vocabulary may be padded beyond the target's.
    run.propose({});
    run.choose(0, length);
    EDGEDRAFT_SESSION_CHECK(target.begin(DraftTree()));
  });
}

bool PassLoop::with_session(Request& request, const std::function<void(TargetSession&)>& work) {
  TargetSession& target = request.session->target;
  try {
    target.abandon();
    work(target);
    return true;
  } catch (const std::exception&) {
    give_up(request.client, request.round, std::current_exception());
    return false;
  }
}

void PassLoop::count_hints(const HintCounts& before, const HintCounts& now) {
  const auto count = [&](HintFate fate, std::uint64_t nodes) {
    metrics_->hints[static_cast<std::size_t>(fate)].add(nodes);
  };
  count(HintFate::taken, now.taken - before.taken);
  count(HintFate::passed, now.passed - before.passed);
  count(HintFate::contradicted, now.contradicted - before.contradicted);
  count(HintFate::unknown, now.unknown - before.unknown);
  count(HintFate::evicted, now.evicted - before.evicted);
}

}  // namespace edgedraft
