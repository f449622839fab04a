#include "server/passes/delivery.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>
#include <variant>
#include <vector>

#include "server/sessions/session_fault.h"
#include "shared/base/bytes.h"
#include "shared/drafting/tap.h"
#include "shared/protocol/activation_codec.h"
#include "shared/runtime/kv_cache.h"

namespace edgedraft::server {
namespace {

// Interval of reports on a prompt. Short compared to the silence that clients bear.
constexpr Duration kReportEvery = std::chrono::milliseconds(200);

// Wire format of a tap's rows for positions first..first + count - 1.
Bytes quantized_rows(Tap& tap, const KvCache& cache, std::uint32_t first, std::uint32_t count) {
  const auto groups = tap.scale_groups();
  const ActivationLayout layout({groups.begin(), groups.end()});
  std::vector<float> values(std::size_t{count} * layout.cols());
  tap.read(cache, first, count, values);
  return quantize_rows(layout, values);
}

std::uint32_t microseconds(Duration d) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(d).count());
}

std::uint32_t token_count(const VerifiedPath& path) {
  return static_cast<std::uint32_t>(path.path.size()) + 1;
}

}  // namespace

wire::Verdict Delivery::verdict_of(const Request& turn, Instant finished) {
  const Instant started = *turn.started;
  parts_.metrics->answered(started - turn.posted, finished - started);
  return {.round = turn.round,
          .queue_us = microseconds(started - turn.posted),
          .verify_us = microseconds(finished - started),
          .logprobs = turn.session->target.take_logprobs()};
}

std::optional<RunTurn> Delivery::answer(PromptTurn& prompt, const Outcome& outcome,
                                        Instant finished) {
  const auto* const answered = std::get_if<PrefillOutcome>(&outcome);
  EDGEDRAFT_SESSION_CHECK(answered != nullptr);
  wire::Verdict verdict = verdict_of(prompt, finished);
  parts_.metrics->prompt_answered(prompt.is_new, finished - prompt.posted);
  prompt.session->used = finished;
  const TargetSession& target = prompt.session->target;
  verdict.next = answered->next;
  verdict.accepted_count = prompt.kept_count > 0 ? prompt.kept_count : answered->accepted_count;
  verdict.ending = answered->finish;
  prompt.client.reply->verdict(std::move(verdict));
  const std::uint32_t end = target.valid_count();
  if (prompt.client.tap != nullptr && prompt.rows_from < end) {
    owed_.push_back(
        {.client = prompt.client, .round = prompt.round, .first = prompt.rows_from, .end = end});
  }
  if (!prompt.run || answered->finish != Finish::none) return std::nullopt;
  prompt.run->advance(target.tokens().last(answered->accepted_count + 1), finished);
  return RunTurn{prompt, std::move(prompt.run)};
}

void Delivery::observe(const ProbeBudget::Outcome& outcome) {
  parts_.speculation->observe_outcome(outcome);
  parts_.metrics->probe_rows.add(outcome.probe_rows);
}

bool Delivery::answer(RunTurn& turn, const Outcome& outcome, Instant finished) {
  const auto* const verified = std::get_if<VerifiedPath>(&outcome);
  EDGEDRAFT_SESSION_CHECK(verified != nullptr);
  const VerifiedPath& path = *verified;
  wire::Verdict verdict = verdict_of(turn, finished);
  Run& run = *turn.run;
  const TargetSession& target = turn.session->target;
  const std::uint32_t count = token_count(path);
  parts_.metrics->draft_answered(run.chosen().node_count(), count - 1,
                                 finished - turn.session->used);
  turn.session->used = finished;
  const auto brought = target.tokens().last(count);
  const std::uint32_t hinted = run.hinted_count();
  const std::uint32_t guessed = run.guessed_count();
  if (parts_.speculation != nullptr && !run.in_lockstep()) {
    if (hinted == 0) parts_.speculation->observe_draft(run.chosen().row_count(), count);
    observe({.rows = run.chosen().row_count(),
             .probe_rows = turn.probes_run(),
             .tokens = count,
             .guessed = run.guessed_count(path.path)});
  }
  run.observe(path.path);
  run.advance(brought, finished);
  verdict.next = path.next;
  verdict.ending = path.finish;
  verdict.tokens.assign(brought.begin(), brought.end() - 1);
  verdict.hinted = hinted;
  verdict.hints_seen = run.hints_seen();
  verdict.held_us = microseconds(turn.held);
  verdict.drafted = guessed;
  verdict.draft_us = microseconds(turn.drafted.time);
  const bool brings_rows = run.brings_rows() && turn.client.tap != nullptr;
  const std::uint32_t row_count = verdict_rows(path.path.size(), turn.client.newest_row);
  const std::uint32_t first = target.valid_count() - row_count;
  if (brings_rows && run.in_lockstep()) verdict.activations = new_rows(turn, first, row_count);
  turn.client.reply->verdict(std::move(verdict));
  if (brings_rows && !run.in_lockstep()) {
    // Tokens do not wait for the tap or the last packet of activations.
    turn.client.reply->run_activations({.round = turn.round,
                                        .first = first,
                                        .count = row_count,
                                        .data = new_rows(turn, first, row_count)});
  }
  return path.finish == Finish::none;
}

Bytes Delivery::new_rows(const Request& turn, std::uint32_t first, std::uint32_t count) const {
  return quantized_rows(*turn.client.tap, turn.session->target.cache(), first, count);
}

void Delivery::reading(PromptTurn& prompt, Instant finished) {
  if (finished < std::max(prompt.posted, prompt.reported) + kReportEvery) return;
  prompt.reported = finished;
  prompt.client.reply->reading(prompt.round);
}

void Delivery::refuse(const Client& client, std::uint32_t round, Refusal why, Error error) {
  parts_.metrics->refused(why);
  try {
    client.reply->refuse(round, std::move(error));
  } catch (const std::exception&) {
    // If even the refusal fails, the client times out by itself.
  }
}

bool Delivery::owes_rows() const {
  return std::any_of(owed_.begin(), owed_.end(),
                     [](const RowsOwed& owed) { return !owed.waits(); });
}

void Delivery::send_owed_rows(SessionStore& sessions) {
  const auto next =
      std::find_if(owed_.begin(), owed_.end(), [](const RowsOwed& owed) { return !owed.waits(); });
  if (next == owed_.end()) return;
  RowsOwed owed = std::move(*next);
  owed_.erase(next);
  Session* const session = sessions.find(owed.client.connection_id);
  if (session == nullptr) return;
  session->rows_sent = parts_.now();
  const auto groups = owed.client.tap->scale_groups();
  const ActivationLayout layout({groups.begin(), groups.end()});
  const std::uint32_t count = std::min(chunk_rows(layout), owed.end - owed.first);
  const std::uint32_t first = owed.end - count;
  owed.client.reply->activations(compress_activations(
      owed.round, first, count,
      quantized_rows(*owed.client.tap, session->target.cache(), first, count), owed.client.codec));
  if (first == owed.first) return;
  owed.end = first;
  owed_.push_back(std::move(owed));
}

void Delivery::drop_rows(std::uint64_t connection_id) {
  std::erase_if(owed_,
                [=](const RowsOwed& owed) { return owed.client.connection_id == connection_id; });
}

}  // namespace edgedraft::server
