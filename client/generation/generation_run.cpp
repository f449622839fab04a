#include "client/generation/generation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>
#include <utility>

#include "shared/speculative/draw_ranking.h"

// A server that goes on by itself, and a device that drafts ahead of what it knows.
namespace edgedraft {
namespace {

// How far beyond what is known the server may go: what it does behind a stop that only the device
// knows is wasted.
constexpr std::uint32_t kCreditAhead = 256;
// After so many tokens it is decided anew what to do.
constexpr std::uint32_t kRunLookTokens = 32;

constexpr const char* kFasterStream = "the server's stream is expected to be faster: ";

DraftAhead::Options ahead_options(const RunControl::Decision& decision) {
  return {.breadth = decision.breadth, .floor = static_cast<Score>(std::log(decision.floor))};
}

std::string_view to_string(RunKind kind) {
  switch (kind) {
    case RunKind::stream:
      return "stream";
    case RunKind::sequential:
      return "sequential";
    case RunKind::overlap:
      return "overlap";
    case RunKind::economy:
      return "economy";
  }
  return "";
}

}  // namespace

bool Generation::may_run() const {
  return options_.overlap != Overlap::off && server_.runs;
}

std::uint32_t Generation::credit() const {
  const std::uint32_t answer_end = conversation_.answer_first() + options_.tokens_max;
  const std::uint32_t most = std::min(answer_end, conversation_.count() + kCreditAhead);
  return server_.context_count == 0 ? most : std::min(most, server_.context_count);
}

RunControl::Decision Generation::plan_run() {
  if (!options_.tree) return {.kind = RunKind::stream};
  const std::uint32_t breadth = options_.tree->breadth;
  if (options_.overlap == Overlap::on) return {.kind = RunKind::overlap, .breadth = breadth};
  if (options_.overlap == Overlap::economy) return {.kind = RunKind::economy, .breadth = breadth};
  const bool on_battery = parts_.on_battery && parts_.on_battery();
  const std::uint32_t left = options_.tokens_max - answer_count();
  return run_plan_.tries ? run_control_.try_drafting(breadth, left, on_battery)
                         : run_control_.decide(breadth, left, on_battery);
}

wire::RunTerms Generation::run_terms() {
  request_.running = false;
  request_.credit = may_run() ? credit() : 0;
  if (request_.credit == 0) return {};
  // For the whole of it: a try that ends as soon as it may be judged would bring little.
  if (!run_plan_.is_counted) run_plan_.tries = run_control_.is_to_try();
  run_plan_.doing = plan_run();
  return {.credit = request_.credit,
          .rows = run_plan_.doing.drafts() && memory_.wants_rows(),
          .economy = run_plan_.doing.kind == RunKind::economy};
}

void Generation::begin_run() {
  request_.running = true;
  const bool drafts = run_plan_.doing.drafts();
  const bool is_counted = std::exchange(run_plan_.is_counted, true);
  if (!is_counted && options_.overlap == Overlap::automatic && options_.tree) {
    run_control_.observe_answer(drafts);
  }
  run_plan_.step_is_cold = true;
  if (drafts && !ahead_) ahead_.emplace(*parts_.drafter, ahead_options(run_plan_.doing));
  apply(run_plan_.doing);
  run_plan_.begins = true;
  if (!drafts) {
    ahead_.reset();
    return;
  }
  ahead_->set_choice(draft_choice());
  ahead_->begin();
  ahead_->advance({}, depth_left());
}

// From now on, until it is looked at again.
void Generation::apply(const RunControl::Decision& decision) {
  run_plan_.doing = decision;
  if (ahead_ && decision.drafts()) ahead_->set(ahead_options(decision));
  stats_.overlap = to_string(decision.kind);
  stats_.predicted_tokens_per_second = decision.tokens_per_second;
  if (options_.overlap != Overlap::automatic) return;
  stats_.overlap_because = run_control_.why();
  if (!decision.drafts()) stats_.streamed_because = kFasterStream + run_control_.why();
  if (parts_.on_decision) parts_.on_decision(stats_.overlap + ": " + run_control_.why());
}

// Holds what came against what was predicted, and decides anew. It is asked when the link has
// nothing more to tell, so that a stretch neither begins nor ends among verdicts that had piled up:
// their rate would be that of taking them in. What is left when an answer ends, maybe after a while
// without the server, is too little to tell.
void Generation::look_at_run() {
  if (!request_.running || options_.overlap != Overlap::automatic || !options_.tree) return;
  const bool begins = std::exchange(run_plan_.begins, false);
  if (!begins && run_plan_.tokens < kRunLookTokens) return;
  const Instant now = parts_.now();
  if (!begins && run_plan_.is_timed) {
    run_control_.observe_run(run_plan_.doing, run_plan_.tokens, now - run_plan_.since);
  }
  run_plan_.since = now;
  run_plan_.is_timed = is_timed();
  run_plan_.tokens = 0;
  if (begins) return;
  const RunControl::Decision decision = plan_run();
  // Without activations there is nothing to draft from.
  if (decision.drafts() && !ahead_) return;
  const bool told =
      (decision.kind == RunKind::economy) == (run_plan_.doing.kind == RunKind::economy);
  apply(decision);
  if (!told) send_hints({});
}

// Levels of a tree that are of use: the target adds a token of its own behind it.
std::uint32_t Generation::depth_left() const {
  return options_.tokens_max - std::min(options_.tokens_max, answer_count() + 1);
}

TreeGrowth::Choice Generation::draft_choice() {
  const bool has_grammar = law_ && law_->grammar();
  const SamplingParams& sampling = options_.sampling;
  const bool has_noise = !sampling.greedy();
  if (!has_grammar && !has_noise) return {};
  return [has_grammar, has_noise, sampling, this](std::span<const std::uint32_t> path,
                                                  std::vector<DraftGuess>& guesses) {
    if (has_grammar) {
      const auto so_far = answer();
      std::vector<std::uint32_t> text(so_far.begin(), so_far.end());
      text.insert(text.end(), path.begin(), path.end());
      std::vector<std::uint32_t> tokens;
      for (const DraftGuess& guess : guesses) tokens.push_back(guess.token);
      keep_allowed(law_->allowed(text, tokens), guesses);
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
  const SentHints::News news = ahead_->news();
  if (news.nodes.empty()) return;
  stats_.drafted += static_cast<std::uint32_t>(news.nodes.size());
  send_hints(news);
}

void Generation::send_hints(const SentHints::News& news) {
  // What comes of a link that has gone down is told as an event.
  (void)parts_.link.send(wire::OutgoingHints{.credit = request_.credit,
                                             .economy = run_plan_.doing.kind == RunKind::economy,
                                             .first = news.first,
                                             .hints = conversation_.hints(news.nodes)});
}

void Generation::take_run(const VerdictReceived& event) {
  const wire::Verdict& verdict = event.verdict;
  const std::uint32_t before = conversation_.count();
  for (const std::uint32_t token : verdict.tokens) write(token, Provenance::verified);
  write(verdict.next, Provenance::verified);
  server_.count = conversation_.count();
  const auto accepted = static_cast<std::uint32_t>(verdict.tokens.size());
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
  ++stats_.cycles;
  stats_.cycle_tokens += accepted + 1;
  stats_.drafted += verdict.drafted;
  stats_.accepted += accepted;
  if (const std::uint32_t now = credit(); now > request_.credit) {
    // In portions: half of it may be used before more is given.
    const bool little_left = request_.credit < conversation_.count() + kCreditAhead / 2;
    if (!little_left) return;
    request_.credit = now;
    send_hints({});
  }
}

// The answer has ended for us, and may not have for the server.
void Generation::end_run() {
  if (request_.running && request_.in_flight) {
    (void)parts_.link.send(CancelRequest{});
    request_.in_flight = false;
  }
  if (request_.running) unchanged_count_ = conversation_.count();
  request_.running = false;
}

}  // namespace edgedraft
