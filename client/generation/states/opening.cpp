#include "client/generation/states/states.h"

namespace edgedraft::client {

// Must not depend on private text: the server sees the result.
bool OpeningState::is_wanted(std::uint32_t open_count) const {
  return terms_.is_private && open_count > 1 && parts_.writer == nullptr && memory_.wants_rows() &&
         !server_.link_error && memory_.complete_end() + 1 < open_count;
}

void OpeningState::append_rest() {
  conversation_.append(rest_, Provenance::private_);
  rest_.clear();
}

Phase OpeningState::end() {
  append_rest();
  conversation_.begin_answer();
  return answer_.agreement.begin_writing();
}

Result<Phase> OpeningState::take(const Result<ClientEvent>& told) {
  answer_.requests.end_wait();
  if (told) return take_event(*told) ? Phase::opening : end();
  const Error& error = told.error();
  if (error.code == Errc::timed_out) return Phase::opening;
  if (error.code == Errc::link_down) answer_.requests.lost(error);
  answer_.agreement.go_offline(error.message);
  return end();
}

// Returns false if no more will come.
bool OpeningState::take_event(const ClientEvent& event) {
  if (!answer_.requests.take(event)) return false;
  if (std::holds_alternative<RequestRefused>(event)) {
    request_.in_flight = false;
    server_.forgot();
    return false;
  }
  const auto* const verdict = std::get_if<VerdictReceived>(&event);
  if (verdict == nullptr || !answer_.requests.awaits(verdict->to)) return true;
  request_.in_flight = false;
  request_.asks = false;
  server_.took_tokens(verdict->to == VerdictReceived::To::prefill);
  // The server's next token is not used.
  server_.count = conversation_.count();
  memory_.expect_until(conversation_.count());
  request_.rows_deadline = parts_.now() + options_.deadline;
  ++stats_.target_calls;
  return true;
}

Result<State::Step> OpeningState::work() {
  const bool asks = request_.asks;
  if (asks && answer_.requests.may_send() && !answer_.requests.send_tokens(std::nullopt)) {
    return Step{end()};
  }
  const Instant until = asks                ? request_.deadline
                        : memory_.pending() ? request_.rows_deadline
                                            : parts_.now();
  if (parts_.now() >= until) return Step{end()};
  answer_.requests.begin_wait();
  return Step{Phase::opening, until};
}

}  // namespace edgedraft::client
