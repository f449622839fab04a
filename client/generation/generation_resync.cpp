#include "client/generation/generation.h"

#include <algorithm>

// Agreeing with the server: what it lacks of the text, and what becomes of what was written
// offline.
namespace edgedraft {
bool Generation::may_ask_again() const {
  return signed_in_ && !in_flight_ && !cut_off_ && parts_.now() >= ask_again_;
}

bool Generation::has_text_to_check() const {
  return !cut_off_ && options_.resync == wire::ResyncPolicy::check &&
         settled_count_ < ledger_.count();
}

void Generation::begin_resync() {
  ++stats_.resyncs;
  end_.reset();
  wanted_ = Wanted::tokens;
  enter(ClientState::resyncing, "the server is back");
}

// Puts to the server what it lacks of the ledger; the tokens behind settled_count_ to be checked or
// kept, as the policy says.
Result<void> Generation::send_tokens() {
  std::uint32_t count = ledger_.count();
  const bool to_check = options_.resync == wire::ResyncPolicy::check && count > settled_count_;
  // A full context leaves the server no room for a token of its own: the last one written is held
  // back, to be compared with the server's.
  if (to_check) count = std::clamp(context_count_ - 1, settled_count_, count);
  const std::uint32_t written = count - settled_count_;
  const auto policy = to_check ? wire::ResyncPolicy::check : wire::ResyncPolicy::keep;
  const bool new_connection = fresh_session_.has_value();
  // Resume has no place for given tokens before those to be checked.
  const bool resumes = new_connection && session_ && (!to_check || server_count_ >= settled_count_);
  const std::uint32_t base =
      new_connection && !resumes ? 0 : std::min(server_count_, settled_count_);

  // Rows that came for positions behind the last complete block come again.
  activations_end_ = rows_end_ = std::min(base, activations_end_);
  if (parts_.drafter) {
    parts_.drafter->drop_activations(activations_end_);
    rows_pending_ = parts_.drafter->activation_cols() > 0;
  }
  // Who is not going to draft asks for none; should that change, they come with a catch-up.
  const bool unwanted = !resumes && rows_pending_ && control_.streams();
  if (unwanted) rows_pending_ = false;
  checked_ = to_check;
  sent_rows_ = std::max(count - base, 1u);  // the last token runs in any case
  rows_lacking_ = unwanted;
  const SafePrefix text(ledger_, base, count - base);
  const SafeParameters parameters(options_.sampling);
  if (resumes) {
    return parts_.link.send(wire::OutgoingResume{.session = *session_,
                                                 .text = text,
                                                 .policy = policy,
                                                 .activations_from = activations_end_,
                                                 .parameters = parameters});
  }
  return parts_.link.send(
      wire::OutgoingPrefill{.text = text,
                            .provisional_count = to_check ? written : 0,
                            .policy = policy,
                            .activations_from = unwanted ? count : activations_end_,
                            .parameters = parameters});
}

void Generation::take_check(const wire::Verdict& verdict) {
  const std::uint32_t written = ledger_.count() - settled_count_;
  std::uint32_t standing = checked_ ? std::min(verdict.accepted_count, written) : written;
  const std::uint32_t kept = settled_count_ + standing;
  // Where an answer ends it also ends offline: that token is no correction.
  const bool repeats = kept < ledger_.count() && ledger_.tokens()[kept] == verdict.next;
  if (repeats) ++standing;
  if (checked_) {
    ledger_.confirm(settled_count_, standing);
    parts_.observer.on_confirmed(settled_count_ + standing - answer_first_);
  }
  const std::uint32_t rewritten = written - standing;
  stats_.rewritten_tokens += rewritten;
  if (rewritten > 0) {
    drop_from(settled_count_ + standing);
    parts_.observer.on_rewrite(answer_count());
  }
  if (state_ == ClientState::resyncing) {
    enter(ClientState::online, checked_ ? std::to_string(standing) + " offline tokens confirmed, " +
                                              std::to_string(rewritten) + " rewritten"
                                        : std::to_string(standing) + " offline tokens kept");
  }
  if (!repeats) write(verdict.next, Provenance::verified);
  server_count_ = ledger_.count();
}

}  // namespace edgedraft
