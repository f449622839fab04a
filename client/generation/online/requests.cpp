#include "client/generation/online/requests.h"

#include <numeric>
#include <utility>

namespace edgedraft::client {

// True if no answer is pending and the link is up. The link reports its end as an event.
bool Requests::may_send() const {
  return server_.signed_in && !request_.in_flight && parts_.link.state() == LinkState::online;
}

bool Requests::may_ask() const {
  return !server_.link_closed && may_send() && parts_.now() >= server_.ask_again;
}

Instant Requests::next_look() const {
  if (may_send()) return std::max(parts_.now(), server_.ask_again);
  return parts_.now() + options_.deadline;
}

bool Requests::awaits(VerdictReceived::To to) const {
  return request_.in_flight && request_.running == (to == VerdictReceived::To::run);
}

bool Requests::has_text_to_check() const {
  return options_.resync == wire::ResyncPolicy::check && !terms_.is_private &&
         conversation_.settled_count() < conversation_.count();
}

void Requests::begin() {
  request_.sent = parts_.now();
  request_.deadline = request_.sent + options_.deadline;
  request_.rows_deadline = {};
  request_.drafting = {};
}

// Sends the part of the conversation that the server lacks. Tokens that are not settled are to be
// checked or kept, depending on the policy. Without run terms, no answer is requested and no answer
// terms are sent.
Result<void> Requests::send_tokens(const std::optional<wire::RunTerms>& run) {
  begin();
  std::uint32_t count = conversation_.count();
  const std::uint32_t settled = conversation_.settled_count();
  const bool to_check = options_.resync == wire::ResyncPolicy::check && count > settled;
  // The server needs a free position for its own token. If the context is full, the last written
  // token is held back and compared with the server's.
  if (to_check) count = std::clamp(server_.context_count - 1, settled, count);
  const std::uint32_t written = count - settled;
  const auto policy = to_check ? wire::ResyncPolicy::check : wire::ResyncPolicy::keep;
  const bool new_connection = server_.fresh_session.has_value();
  const std::uint32_t common = std::min(server_.count, settled);
  // A Resume cannot carry given tokens before those to be checked, and needs at least one token.
  const bool resumes =
      new_connection && server_.session && common > 0 && (!to_check || server_.count >= settled);
  const std::uint32_t base = new_connection && !resumes ? 0 : common;

  memory_.expect_from(base);
  // The newest position with activations is the last token's. If a check may reject all of the
  // written text, it is the last settled token's.
  const std::uint32_t newest = count_beyond_doubt() - 1;
  const std::uint32_t rows_from =
      server_.newest_row ? std::max(memory_.complete_end(), newest) : memory_.complete_end();
  request_.checked = to_check;
  request_.settled_count = settled;
  request_.rows = std::max(count - base, 1u);  // the last token runs in any case
  const SafePrefix text = conversation_.prefix(base, count - base);
  const SafeParameters parameters(run ? terms_.sampling : SamplingParams{},
                                  run ? constraints() : Constraints{});
  request_.running = false;
  const wire::RunTerms terms = run.value_or(wire::RunTerms{});
  const auto sent =
      resumes ? parts_.link.send(wire::OutgoingResume{.session = *server_.session,
                                                      .text = text,
                                                      .policy = policy,
                                                      .activations_from = rows_from,
                                                      .parameters = parameters,
                                                      .run = terms})
              : parts_.link.send(wire::OutgoingPrefill{.text = text,
                                                       .provisional_count = to_check ? written : 0,
                                                       .policy = policy,
                                                       .activations_from = rows_from,
                                                       .parameters = parameters,
                                                       .run = terms});
  request_.in_flight = sent.has_value();
  return sent;
}

Constraints Requests::constraints() const {
  if (!terms_.filter) return Constraints{};
  Constraints constraints = terms_.filter->constraints();
  constraints.answer_begin = conversation_.answer_first();
  return constraints;
}

Result<void> Requests::take(const ClientEvent& event) {
  if (const auto* welcomed = std::get_if<Welcomed>(&event)) return take_welcome(welcomed->welcome);
  if (const auto* rows = std::get_if<ActivationsReceived>(&event)) take_activations(*rows);
  if (std::holds_alternative<RequestRead>(event)) {
    request_.deadline = parts_.now() + options_.deadline;
  }
  return boost::system::in_place_value;
}

Result<void> Requests::take_welcome(const wire::Welcome& welcome) {
  const std::uint32_t cols =
      std::accumulate(welcome.scale_groups.begin(), welcome.scale_groups.end(), 0u);
  if (parts_.drafter && cols != parts_.drafter->activation_cols()) {
    return Error{Errc::mismatch, "the server sends " + std::to_string(cols) +
                                     " activations per token, the drafter expects " +
                                     std::to_string(parts_.drafter->activation_cols()) +
                                     ": use the same bundle on both sides"};
  }
  server_.welcomed(welcome);
  request_.in_flight = request_.running = false;
  request_.asks = true;
  return {};
}

void Requests::take_activations(const ActivationsReceived& event) {
  if (!parts_.drafter) return;
  if (event.of_run) {
    // Rows for tokens that were replaced since are ignored. A prompt in flight asks for its own
    // rows.
    const bool asked_again = request_.in_flight && !request_.running;
    const bool still_there =
        request_.running || (!asked_again && event.first + event.count <= unchanged_count_);
    if (still_there) memory_.add_cycle(event.first, event.count, event.rows);
    return;
  }
  // Rows of the prompt in flight come after its verdict, so these belong to an older prompt.
  if (request_.in_flight && !request_.running) return;
  request_.rows_deadline = {};
  memory_.add_part(event.first, event.count, event.rows, event.complete);
}

// Discards the tokens of a late verdict, but records that the server is back and holds the prompt.
void Requests::take_late(const VerdictReceived& event) {
  if (event.to == VerdictReceived::To::run) return;
  server_.took_tokens(event.to == VerdictReceived::To::prefill);
  memory_.expect_until(event.verdict.length - 1);
  // The server holds the tokens that were settled when the request was sent.
  server_.count = std::min(request_.settled_count, conversation_.settled_count());
}

Result<void> Requests::drain() {
  // If the device answers alone, network traffic must not show that an answer is written.
  bool may_try_again = terms_.route != WritingSide::device;
  for (;;) {
    const auto event = parts_.link.wait_event(parts_.now());
    if (!event) {
      if (event.error().code == Errc::timed_out) return {};
      if (event.error().code == Errc::link_down) {
        lost(event.error());
        continue;
      }
      // Retries a link that was closed earlier, since the cause may be gone. A new cause is
      // reported instead: it ends the answer, which would otherwise hide the failure.
      const bool known = server_.link_closed || server_.link_error;
      if (!known || !std::exchange(may_try_again, false)) return {};
      parts_.link.try_again();
      continue;
    }
    // No request is pending between answers: a verdict or refusal now belongs to a cancelled one.
    if (auto taken = take(*event); !taken) return taken;
    if (!std::holds_alternative<ActivationsReceived>(*event)) request_.in_flight = false;
  }
}

void Requests::lost(const Error& error) {
  request_.in_flight = request_.running = false;
  server_.lost(error);
}

void Requests::drop() {
  if (request_.in_flight || request_.running) (void)parts_.link.send(CancelRequest{});
  request_.in_flight = request_.running = false;
}

void Requests::end_run() {
  if (request_.running) unchanged_count_ = conversation_.count();
  if (request_.running && (request_.in_flight || options_.in_lockstep())) {
    drop();
  } else {
    request_.running = false;
  }
}

void Requests::drop_from(std::uint32_t count) {
  conversation_.truncate(count);
  server_.count = std::min(server_.count, count);
  memory_.truncated(count);
}

}  // namespace edgedraft::client
