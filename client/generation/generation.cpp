#include "client/generation/generation.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {
Generation::Generation(const Parts& parts, const GenerationOptions& options)
    : parts_(parts),
      options_(options),
      conversation_(parts.drafter),
      server_{.context_count = options.context_count},
      memory_(parts.drafter) {
  EDGEDRAFT_CHECK(parts.drafter != nullptr || !options.tree);
}

Result<AnswerEnd> Generation::answer(std::span<const std::uint32_t> prompt) {
  EDGEDRAFT_CHECK(!prompt.empty());
  if (auto drained = drain_events(); !drained) return drained.error();
  if (request_.in_flight) (void)parts_.link.send(CancelRequest{});
  request_.in_flight = false;
  const auto known = conversation_.tokens();
  const auto common = static_cast<std::uint32_t>(
      std::mismatch(known.begin(), known.end(), prompt.begin(), prompt.end()).first -
      known.begin());
  drop_from(common);
  conversation_.append(prompt.subspan(common), Provenance::given);

  started_ = parts_.now();
  stats_ = {};
  if (parts_.on_cycle) noted_link_ = parts_.link.stats();
  cut_off_ = false;
  stats_.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  conversation_.begin_answer();
  end_.reset();
  server_.link_closed = false;
  request_.kind = RequestInFlight::Kind::tokens;
  request_.deadline = started_ + options_.deadline;
  state_ = ClientState::online;
  plan_.tokens = 0;
  // Where the link is known to be down there is nothing to wait for.
  if (server_.link_error && !parts_.drafter) return *server_.link_error;
  if (server_.link_error) go_offline(server_.link_error->message);
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
  std::optional<Instant> give_up;
  do {
    while (!end_) {
      if (state_ == ClientState::online) give_up.reset();
      if (parts_.cancelled()) {
        if (request_.in_flight) (void)parts_.link.send(CancelRequest{});
        request_.in_flight = false;
        end_ = AnswerEnd::cancelled;
        break;
      }
      const auto step = state_ == ClientState::offline ? step_offline() : step_online();
      if (!step) return step.error();
    }
  } while (state_ == ClientState::offline && *end_ != AnswerEnd::cancelled &&
           wait_for_server(give_up));
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
  conversation_.append(std::span(&token, 1), provenance);
  if (answer_count() == 1) stats_.first_token_elapsed = parts_.now() - started_;
  parts_.observer.on_token(token, ledger().provenance(conversation_.count() - 1));
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
  conversation_.truncate(count);
  server_.count = std::min(server_.count, count);
  memory_.truncated(count);
}

Duration Generation::keep_pace(Instant started, std::uint32_t steps) {
  const Duration pace = std::max(options_.pace, options_.step_pace * steps);
  if (pace <= Duration::zero()) return pace;
  if (parts_.now() > started + pace) ++stats_.late_drafts;
  parts_.wait_until(started + pace);
  return pace;
}

}  // namespace edgedraft
