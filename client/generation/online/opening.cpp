#include "client/generation/online/opening.h"

namespace edgedraft::client {

// Must not depend on private text: the server sees the result.
bool Opening::is_wanted(std::uint32_t open_count) const {
  return terms_.is_private && open_count > 1 && parts_.writer == nullptr && memory_.wants_rows() &&
         !server_.link_error && memory_.complete_end() + 1 < open_count;
}

std::optional<Instant> Opening::work() {
  const bool asks = request_.asks;
  if (asks && requests_.may_send() && !requests_.send_tokens(std::nullopt)) return std::nullopt;
  const Instant end = asks                ? request_.deadline
                      : memory_.pending() ? request_.rows_deadline
                                          : parts_.now();
  if (parts_.now() >= end) return std::nullopt;
  return end;
}

Result<bool> Opening::take(const Result<ClientEvent>& told) {
  if (!told) {
    if (told.error().code == Errc::timed_out) return true;
    if (told.error().code == Errc::link_down) requests_.lost(told.error());
    return told.error();
  }
  if (!requests_.take(*told)) return false;
  if (std::holds_alternative<RequestRefused>(*told)) {
    request_.in_flight = false;
    server_.forgot();
    return false;
  }
  const auto* const verdict = std::get_if<VerdictReceived>(&*told);
  if (verdict == nullptr || !requests_.awaits(verdict->to)) return true;
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

}  // namespace edgedraft::client
