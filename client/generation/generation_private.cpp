#include "client/generation/generation.h"

// An answer to a prompt with private text, of which the server reads what stands before that: the
// drafter then writes from the target's activations of it, as in appendix A.6 of *Mixture of
// Attentions*, where the server is gone.
namespace edgedraft {

// Whether the drafter lacks activations of the first tokens that the server could give it. Nothing
// private decides that.
bool Generation::wants_opening(std::uint32_t open_count) const {
  return terms_.is_private && open_count > 1 && parts_.writer == nullptr && memory_.wants_rows() &&
         !server_.link_error && memory_.complete_end() + 1 < open_count;
}

void Generation::work_opening() {
  const bool asks = request_.asks;
  if (asks && requests_.may_send() && !send_wanted()) return end_opening();
  const Instant end = asks                ? request_.deadline
                      : memory_.pending() ? request_.rows_deadline
                                          : parts_.now();
  if (parts_.now() >= end) return end_opening();
  wait_begin_ = parts_.now();
  wait_end_ = end;
}

void Generation::take_opening(const Result<ClientEvent>& told) {
  if (!told) {
    const Error& error = told.error();
    if (error.code == Errc::timed_out) return;
    if (error.code == Errc::link_down) requests_.lost(error);
    go_offline(error.message);
    return end_opening();
  }
  const auto* const verdict = std::get_if<VerdictReceived>(&*told);
  if (std::holds_alternative<RequestRefused>(*told)) {
    request_.in_flight = false;
    server_.forgot();
    end_opening();
  } else if (verdict != nullptr) {
    if (!requests_.awaits(verdict->to)) return;
    request_.in_flight = false;
    request_.asks = false;
    server_.took_tokens(verdict->to == VerdictReceived::To::prefill);
    // Its own next token is not wanted.
    server_.count = conversation_.count();
    memory_.expect_until(conversation_.count());
    request_.rows_deadline = parts_.now() + options_.deadline;
    ++stats_.target_calls;
  } else if (!on_event(*told)) {
    end_opening();
  }
}

// Goes on with whatever activations there are.
void Generation::end_opening() {
  append_private_rest();
  conversation_.begin_answer();
  begin_writing();
}

}  // namespace edgedraft
