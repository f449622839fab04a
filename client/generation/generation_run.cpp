#include "client/generation/generation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>
#include <utility>

#include "shared/protocol/activation_codec.h"
#include "shared/speculative/draw_ranking.h"

// A server that goes on by itself, and a device that drafts ahead of what it knows.
namespace edgedraft {
namespace {

// How far beyond what is known the server may go: what it does behind a stop that only the device
// knows is wasted.
constexpr std::uint32_t kCreditAhead = 256;

DraftAhead::Options ahead_options(const RunControl::Decision& decision) {
  return {.breadth = decision.breadth, .floor = static_cast<Score>(std::log(decision.floor))};
}

std::string_view to_string(RunKind kind) {
  switch (kind) {
    case RunKind::stream:
      return "stream";
    case RunKind::sequential:
      break;
    case RunKind::overlap:
      return "overlap";
    case RunKind::economy:
      return "economy";
  }
  return "";
}

}  // namespace

std::uint32_t Generation::credit() const {
  const std::uint32_t answer_end = conversation_.answer_first() + terms_.tokens_max;
  const std::uint32_t most = std::min(answer_end, conversation_.count() + kCreditAhead);
  return server_.context_count == 0 ? most : std::min(most, server_.context_count);
}

RunControl::Decision Generation::plan_run() {
  if (options_.in_lockstep()) return {.kind = RunKind::sequential};
  if (!options_.tree) return {.kind = RunKind::stream, .may_draft = false};
  const std::uint32_t breadth = options_.tree->breadth;
  if (options_.hold == Hold::none) return {.kind = RunKind::overlap, .breadth = breadth};
  if (options_.hold == Hold::economy) return {.kind = RunKind::economy, .breadth = breadth};
  const bool on_battery = parts_.on_battery && parts_.on_battery();
  const std::uint32_t left = terms_.tokens_max - answer_count();
  return run_control_.decide(breadth, left, on_battery);
}

wire::RunTerms Generation::run_terms(std::uint32_t length_min) {
  if (!std::exchange(run_plan_.is_counted, true)) run_control_.begin_answer();
  run_plan_.doing = plan_run();
  request_.credit = credit();
  if (request_.credit <= length_min) return {.logprobs = terms_.logprobs};
  return {.credit = request_.credit,
          .rows = run_plan_.doing.may_draft && memory_.wants_rows(),
          .hold = options_.in_lockstep() ? Hold::lockstep : run_hold(),
          .logprobs = terms_.logprobs};
}

void Generation::begin_run() {
  request_.running = true;
  if (options_.in_lockstep()) {
    request_.in_flight = false;
    return apply(run_plan_.doing);
  }
  const bool may_draft = run_plan_.doing.may_draft;
  if (may_draft && !ahead_) ahead_.emplace(*parts_.drafter, ahead_options(run_plan_.doing));
  apply(run_plan_.doing);
  begin_stretch();
  if (!may_draft) {
    ahead_.reset();
    return;
  }
  ahead_->set_choice(draft_choice());
  ahead_->begin();
  ahead_->advance({}, depth_left());
}

// From now on, until the next look.
void Generation::apply(const RunControl::Decision& decision) {
  if (ahead_ && decision.drafts()) ahead_->set(ahead_options(decision));
  if (decision.kind == RunKind::sequential) return;
  stats_.overlap = to_string(decision.kind);
  stats_.predicted_tokens_per_second = decision.tokens_per_second;
  if (options_.hold || !options_.tree) return;
  stats_.overlap_because = run_control_.why();
  if (!decision.drafts()) stats_.streamed_because = run_control_.why();
  if (parts_.on_decision) parts_.on_decision(stats_.overlap + ": " + run_control_.why());
}

// The way of answering has changed. Verdicts of the former one come for another round trip.
void Generation::begin_stretch() {
  run_plan_.step_is_cold = true;
  run_plan_.begins = true;
  run_plan_.settled = parts_.now();
  if (run_plan_.doing.drafts()) run_plan_.settled += run_control_.round_trip();
}

// Measures the rate of the run, and decides anew. It runs when the link has no more events, so that
// a stretch neither begins nor ends among verdicts that had piled up: their rate would be that of
// taking them in.
void Generation::look_at_run() {
  if (!request_.running || state_ != ClientState::online) return;
  if (options_.hold || !options_.tree) return;
  const Instant now = parts_.now();
  const Duration taken = now - run_plan_.since;
  if (!run_plan_.begins) {
    const bool ends = text_.end() && run_plan_.tokens >= RunControl::kStretchMin;
    if (!ends && !run_control_.is_due(run_plan_.tokens, taken)) return;
    if (run_plan_.is_timed) run_control_.observe_run(run_plan_.doing, run_plan_.tokens, taken);
  } else if (now < run_plan_.settled) {
    return;
  }
  const bool begins = std::exchange(run_plan_.begins, false);
  run_plan_.since = now;
  run_plan_.is_timed = is_timed();
  run_plan_.tokens = 0;
  // Without a tree there is nothing to draft from, so nothing to decide.
  if (begins || text_.end() || !ahead_) return;
  const RunKind kind = run_plan_.doing.kind;
  const Hold hold = run_hold();
  run_plan_.doing = plan_run();
  apply(run_plan_.doing);
  if (run_plan_.doing.kind != kind) begin_stretch();
  if (run_hold() != hold) send_hints({});
}

// Levels of a tree that are of use: the target adds a token of its own behind it.
std::uint32_t Generation::depth_left() const {
  return terms_.tokens_max - std::min(terms_.tokens_max, answer_count() + 1);
}

TreeGrowth::Choice Generation::draft_choice() {
  const bool has_grammar = terms_.law && terms_.law->grammar();
  const SamplingParams& sampling = terms_.sampling;
  const bool has_noise = !sampling.greedy();
  if (!has_grammar && !has_noise) return {};
  return [has_grammar, has_noise, sampling, this](std::span<const std::uint32_t> path,
                                                  std::vector<DraftGuess>& guesses) {
    if (has_grammar) {
      const auto so_far = conversation_.answer();
      std::vector<std::uint32_t> text(so_far.begin(), so_far.end());
      text.insert(text.end(), path.begin(), path.end());
      std::vector<std::uint32_t> tokens;
      for (const DraftGuess& guess : guesses) tokens.push_back(guess.token);
      keep_allowed(terms_.law->allowed(text, tokens), guesses);
    }
    if (has_noise) rank_by_draw(sampling, conversation_.count() + path.size(), guesses);
  };
}

bool Generation::drafts_ahead() const {
  return request_.running && ahead_ && run_plan_.doing.drafts() && !ahead_->done() &&
         !(memory_.pending() && parts_.now() < request_.rows_deadline);
}

void Generation::draft_ahead() {
  const Instant before = parts_.now();
  const std::uint32_t nodes = ahead_->step();
  const Duration taken = parts_.now() - before;
  stats_.drafting += taken;
  if (nodes > 0 && !std::exchange(run_plan_.step_is_cold, false) && is_timed()) {
    run_control_.observe_step(nodes, taken);
  }
  send_news();
}

bool Generation::holds_news() const {
  return request_.running && ahead_ && run_plan_.doing.drafts() && ahead_->holds_news();
}

void Generation::send_news() {
  // In the tree they move along with verdicts; behind others of their kind they would grow old.
  if (parts_.link.backed_up()) return;
  SentHints::News news = ahead_->news();
  if (news.nodes.empty()) return;
  stats_.drafted += static_cast<std::uint32_t>(news.nodes.size());
  send_hints(std::move(news));
}

void Generation::send_hints(SentHints::News news) {
  // What comes of a link that has gone down is told as an event.
  (void)parts_.link.send(wire::OutgoingHints{.credit = request_.credit,
                                             .hold = run_hold(),
                                             .first = news.first,
                                             .hints = conversation_.hints(std::move(news.nodes))});
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
  run_control_.observe_pass(verdict.hinted + verdict.drafted + 1,
                            std::chrono::microseconds(verdict.verify_us));
  if (ahead_) {
    const auto chosen = conversation_.tokens().subspan(before);
    for (const auto& [rank, of] : ahead_->ranks_of(chosen)) {
      // Where there are fewer than the tree would take, the drafter had no more to propose.
      const bool was_cut = of >= ahead_->breadth_min();
      run_control_.observe_rank(rank, was_cut ? of : TreeGrowth::kNoRank);
    }
    ahead_->advance(chosen, depth_left());
  }
  run_plan_.tokens += accepted + 1;
  if (!run_plan_.doing.drafts()) stats_.streamed_tokens += accepted + 1;
  if (const std::uint32_t now = credit(); now > request_.credit) {
    // In portions: half of it may be used before more is given.
    const bool little_left = request_.credit < conversation_.count() + kCreditAhead / 2;
    if (!little_left) return;
    request_.credit = now;
    send_hints({});
  }
}

// What the server is asked for, or goes on with, is not wanted any more.
void Generation::drop_request() {
  if (request_.in_flight || request_.running) (void)parts_.link.send(CancelRequest{});
  request_.in_flight = request_.running = false;
}

// The answer has ended for us, and may not have for the server.
void Generation::end_run() {
  if (request_.running) unchanged_count_ = conversation_.count();
  if (request_.running && (request_.in_flight || options_.in_lockstep())) {
    drop_request();
  } else {
    request_.running = false;
  }
}

}  // namespace edgedraft
