#include "client/generation/generation.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {
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
  streamed_tokens += other.streamed_tokens;
  if (!other.streamed_because.empty()) streamed_because = other.streamed_because;
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
  stream_tokens_ = 0;
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
  parts_.wait_until(started + pace);
  return pace;
}

}  // namespace edgedraft
