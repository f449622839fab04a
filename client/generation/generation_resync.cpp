#include "client/generation/generation.h"

#include <algorithm>

// Agreeing with the server: what it lacks of the text, and what becomes of what was written
// offline.
namespace edgedraft {

bool Generation::may_ask_again() const {
  return !device_writes_ && !server_.link_closed && may_send() && parts_.now() >= server_.ask_again;
}

bool Generation::has_text_to_check() const {
  return options_.resync == wire::ResyncPolicy::check && !terms_.is_private &&
         conversation_.settled_count() < conversation_.count();
}

void Generation::begin_resync() {
  ++stats_.resyncs;
  text_.go_on();
  request_.asks = true;
  enter(ClientState::resyncing, "the server is back");
}

// Puts to the server what it lacks of the conversation; the tokens that are not settled to be
// checked or kept, as the policy says. Where no answer of the server's is wanted it is told nothing
// of what answers are to be like.
Result<void> Generation::send_tokens() {
  std::uint32_t count = conversation_.count();
  const std::uint32_t settled = conversation_.settled_count();
  const bool to_check = options_.resync == wire::ResyncPolicy::check && count > settled;
  // A full context leaves the server no room for a token of its own: the last one written is held
  // back, to be compared with the server's.
  if (to_check) count = std::clamp(server_.context_count - 1, settled, count);
  const std::uint32_t written = count - settled;
  const auto policy = to_check ? wire::ResyncPolicy::check : wire::ResyncPolicy::keep;
  const bool new_connection = server_.fresh_session.has_value();
  // Resume has no place for given tokens before those to be checked.
  const bool resumes = new_connection && server_.session && (!to_check || server_.count >= settled);
  const std::uint32_t base = new_connection && !resumes ? 0 : std::min(server_.count, settled);

  memory_.expect_from(base);
  const bool opens = phase_ == Phase::opening;
  // The newest position with activations is that of the last token, or, since a check may take none
  // of what was written, that of the last settled one.
  const std::uint32_t newest = (to_check ? settled : count) - 1;
  const std::uint32_t rows_from =
      server_.newest_row ? std::max(memory_.complete_end(), newest) : memory_.complete_end();
  request_.checked = to_check;
  request_.settled_count = settled;
  request_.rows = std::max(count - base, 1u);  // the last token runs in any case
  const SafePrefix text = conversation_.prefix(base, count - base);
  const SafeParameters parameters(opens ? SamplingParams{} : terms_.sampling,
                                  opens ? Constraints{} : constraints());
  request_.running = false;
  wire::RunTerms run;
  if (!opens) run = drafting_.run_terms((to_check ? settled : count) + 1);
  if (resumes) {
    return parts_.link.send(wire::OutgoingResume{.session = *server_.session,
                                                 .text = text,
                                                 .policy = policy,
                                                 .activations_from = rows_from,
                                                 .parameters = parameters,
                                                 .run = run});
  }
  return parts_.link.send(wire::OutgoingPrefill{.text = text,
                                                .provisional_count = to_check ? written : 0,
                                                .policy = policy,
                                                .activations_from = rows_from,
                                                .parameters = parameters,
                                                .run = run});
}

Constraints Generation::constraints() const {
  if (!terms_.law) return Constraints{};
  Constraints constraints = terms_.law->constraints();
  constraints.answer_begin = conversation_.answer_first();
  return constraints;
}

void Generation::take_check(const wire::Verdict& verdict) {
  const std::uint32_t settled = conversation_.settled_count();
  const std::uint32_t written = conversation_.count() - settled;
  std::uint32_t standing = request_.checked ? std::min(verdict.accepted_count, written) : written;
  const std::uint32_t kept = settled + standing;
  // Where an answer ends it also ends offline: that token is no correction.
  const bool repeats = kept < conversation_.count() && conversation_.tokens()[kept] == verdict.next;
  if (repeats) ++standing;
  if (request_.checked) {
    conversation_.confirm(standing);
    parts_.observer.on_confirmed(settled - answer_first(), settled + standing - answer_first());
  }
  const std::uint32_t rewritten = written - standing;
  stats_.rewritten_tokens += rewritten;
  if (rewritten > 0) {
    drop_from(settled + standing);
    parts_.observer.on_rewrite(answer_count());
  }
  if (state_ == ClientState::resyncing) {
    enter(ClientState::online,
          request_.checked ? std::to_string(standing) + " offline tokens confirmed, " +
                                 std::to_string(rewritten) + " rewritten"
                           : std::to_string(stats_.offline_tokens) + " offline tokens kept");
  }
  if (!repeats) text_.write(verdict.next, Provenance::verified);
  server_.count = conversation_.count();
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
