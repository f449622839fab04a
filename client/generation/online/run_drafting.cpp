#include "client/generation/online/run_drafting.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/speculative/draw_ranking.h"

namespace edgedraft::client {
namespace {

// Tokens that the server may run ahead of this device. Bounds the passes wasted after a stop that
// only the device detects.
constexpr std::uint32_t kCreditAhead = 256;

DraftAhead::Options ahead_options(const RunControl::Decision& decision) {
  return {.breadth = decision.breadth, .floor = static_cast<Score>(std::log(decision.floor))};
}

std::string_view to_string(RunKind kind) {
  constexpr std::string_view kNames[] = {"stream", "", "overlap", "economy"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

std::uint32_t RunDrafting::credit_now() const {
  const std::uint32_t answer_end = conversation_.answer_first() + terms_.tokens_max;
  const std::uint32_t most = std::min(answer_end, conversation_.count() + kCreditAhead);
  return server_.context_count == 0 ? most : std::min(most, server_.context_count);
}

RunControl::Decision RunDrafting::plan_run() {
  if (options_.in_lockstep()) return {.kind = RunKind::sequential};
  if (!options_.tree) return {.kind = RunKind::stream, .may_draft = false};
  const std::uint32_t breadth = options_.tree->breadth;
  if (options_.hold == Hold::none) return {.kind = RunKind::overlap, .breadth = breadth};
  if (options_.hold == Hold::economy) return {.kind = RunKind::economy, .breadth = breadth};
  const bool on_battery = parts_.on_battery && parts_.on_battery();
  const std::uint32_t left = terms_.tokens_max - conversation_.answer_count();
  return control_.decide(breadth, left, on_battery);
}

wire::RunTerms RunDrafting::run_terms(std::uint32_t length_min) {
  if (!std::exchange(is_counted_, true)) control_.begin_answer();
  control_.set_pass_times(server_.pass_times);
  doing_ = plan_run();
  credit_ = credit_now();
  if (credit_ <= length_min) return {.logprobs = terms_.logprobs};
  return {.credit = credit_,
          .rows = doing_.may_draft && memory_.wants_rows(),
          .hold = options_.in_lockstep() ? Hold::lockstep : run_hold(),
          .logprobs = terms_.logprobs};
}

void RunDrafting::begin() {
  request_.running = true;
  if (options_.in_lockstep()) {
    request_.in_flight = false;
    return apply(doing_);
  }
  const bool may_draft = doing_.may_draft;
  if (may_draft && !ahead_) ahead_.emplace(*parts_.drafter, ahead_options(doing_));
  apply(doing_);
  begin_window();
  if (!may_draft) {
    ahead_.reset();
    return;
  }
  ahead_->set_choice(draft_choice());
  ahead_->begin();
  ahead_->advance({}, depth_left());
}

// Applies the decision until the next look.
void RunDrafting::apply(const RunControl::Decision& decision) {
  if (ahead_ && decision.drafts()) ahead_->set(ahead_options(decision));
  if (decision.kind == RunKind::sequential) return;
  stats_.overlap = to_string(decision.kind);
  stats_.predicted_tokens_per_second = decision.tokens_per_second;
  if (options_.hold || !options_.tree) return;
  stats_.overlap_because = control_.why();
  if (!decision.drafts()) stats_.streamed_because = control_.why();
  if (parts_.on_decision) parts_.on_decision(stats_.overlap + ": " + control_.why());
}

// The mode has changed. Verdicts of the previous one keep arriving for another round trip.
void RunDrafting::begin_window() {
  step_is_cold_ = true;
  begins_ = true;
  settled_ = parts_.now();
  if (doing_.drafts()) settled_ += control_.round_trip();
}

// Runs when the link has no more events, so that an interval neither begins nor ends within a
// backlog of verdicts. Their rate would be the rate of reading the backlog.
void RunDrafting::look(bool ended) {
  if (!request_.running) return;
  if (options_.hold || !options_.tree) return;
  const Instant now = parts_.now();
  const Duration taken = now - since_;
  if (!begins_) {
    const bool ends = ended && tokens_ >= RunControl::kWindowMin;
    if (!ends && !control_.is_due(tokens_, taken)) return;
    if (is_timed_) control_.observe_run(doing_, tokens_, taken);
  } else if (now < settled_) {
    return;
  }
  const bool begins = std::exchange(begins_, false);
  since_ = now;
  is_timed_ = parts_.is_timed();
  tokens_ = 0;
  // Without a tree there is nothing to draft from, so nothing to decide.
  if (begins || ended || !ahead_) return;
  const RunKind kind = doing_.kind;
  const Hold hold = run_hold();
  doing_ = plan_run();
  apply(doing_);
  if (doing_.kind != kind) begin_window();
  if (run_hold() != hold) send_hints({});
}

// Useful levels of a tree: the target adds a token of its own after it.
std::uint32_t RunDrafting::depth_left() const {
  return terms_.tokens_max - std::min(terms_.tokens_max, conversation_.answer_count() + 1);
}

TreeGrowth::Choice RunDrafting::draft_choice() {
  const bool has_grammar = terms_.filter && terms_.filter->grammar();
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
      keep_allowed(terms_.filter->allowed(text, tokens), guesses);
    }
    if (has_noise) rank_by_draw(sampling, conversation_.count() + path.size(), guesses);
  };
}

bool RunDrafting::drafts_ahead() const {
  return request_.running && ahead_ && doing_.drafts() && !ahead_->done() &&
         !(memory_.pending() && parts_.now() < request_.rows_deadline);
}

void RunDrafting::step() {
  const Instant before = parts_.now();
  const std::uint32_t nodes = ahead_->step();
  const Duration taken = parts_.now() - before;
  stats_.drafting += taken;
  if (nodes > 0 && !std::exchange(step_is_cold_, false) && parts_.is_timed()) {
    control_.observe_step(nodes, taken);
  }
  send_news();
}

bool RunDrafting::holds_news() const {
  return request_.running && ahead_ && doing_.drafts() && ahead_->holds_news();
}

void RunDrafting::send_news() {
  // Hints wait in the tree, which follows verdicts; in a backed-up link they would go stale.
  if (parts_.link.backed_up()) return;
  SentHints::Batch batch = ahead_->unsent();
  if (batch.nodes.empty()) return;
  stats_.drafted += static_cast<std::uint32_t>(batch.nodes.size());
  send_hints(std::move(batch));
}

void RunDrafting::send_hints(SentHints::Batch batch) {
  // A link failure arrives as an event.
  (void)parts_.link.send(wire::OutgoingHints{.credit = credit_,
                                             .hold = run_hold(),
                                             .first = batch.first,
                                             .hints = conversation_.hints(std::move(batch.nodes))});
}

// A draft is better with the prompt's newest activations, which are on their way.
bool RunDrafting::awaits_rows() const {
  const bool drafts = options_.in_lockstep() || (ahead_ && memory_.pending());
  return request_.running && drafts && parts_.now() < request_.rows_deadline;
}

Result<void> RunDrafting::send_draft() {
  std::vector<HintNode> nodes;
  const std::uint32_t depth_max = depth_left();
  if (options_.tree && depth_max > 0) {
    const Instant before = parts_.now();
    TreeShape shape = *options_.tree;
    shape.nodes = std::min(shape.nodes, server_.nodes_max);
    shape.limit(std::min(depth_max, shape.nodes));
    if (shape.nodes > 0) nodes = complete_hints(parts_.drafter->draft(shape, draft_choice()));
    request_.drafting = parts_.now() - before;
    stats_.drafting += request_.drafting;
  }
  stats_.drafted += static_cast<std::uint32_t>(nodes.size());
  request_.rows = static_cast<std::uint32_t>(nodes.size()) + 1;
  request_.drafted_at = parts_.now();
  const std::uint32_t now = credit_now();
  const bool is_more = now > credit_;
  credit_ = std::max(credit_, now);
  return parts_.link.send(wire::OutgoingHints{.credit = is_more ? now : 0,
                                              .complete = true,
                                              .hints = conversation_.hints(std::move(nodes))});
}

void RunDrafting::take(const wire::Verdict& verdict, std::uint32_t count_before) {
  control_.observe_pass(verdict.hinted + verdict.drafted + 1,
                        std::chrono::microseconds(verdict.verify_us));
  if (ahead_) {
    const auto chosen = conversation_.tokens().subspan(count_before);
    for (const auto& [rank, of] : ahead_->ranks_of(chosen)) {
      // With fewer candidates than the tree would take, the drafter's proposals were complete.
      const bool was_cut = of >= ahead_->breadth_min();
      control_.observe_rank(rank, was_cut ? of : TreeGrowth::kNoRank);
    }
    ahead_->advance(chosen, depth_left());
  }
  const auto count = static_cast<std::uint32_t>(verdict.tokens.size() + 1);
  tokens_ += count;
  if (!doing_.drafts()) stats_.streamed_tokens += count;
  if (const std::uint32_t now = credit_now(); now > credit_) {
    // Credit is given in portions, renewed when half is used.
    const bool little_left = credit_ < conversation_.count() + kCreditAhead / 2;
    if (!little_left) return;
    credit_ = now;
    send_hints({});
  }
}

}  // namespace edgedraft::client
