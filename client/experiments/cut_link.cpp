#include "client/experiments/cut_link.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {

CutLink::CutLink(std::unique_ptr<TargetLink> link, std::uint32_t tokens, std::string why)
    : link_(std::move(link)), tokens_(tokens), why_(std::move(why)) {
  EDGEDRAFT_CHECK(tokens > 0);
}

LinkState CutLink::state() const {
  return brought_count_ < tokens_ ? link_->state() : LinkState::closed;
}

Result<void> CutLink::send(TargetRequest request) {
  if (state() == LinkState::closed) return Error{Errc::link_down, why_};
  if (auto* draft = std::get_if<wire::OutgoingDraft>(&request)) return pass_on(std::move(*draft));
  // A run brings no more than it has credit for, as a stream no more than it was asked for.
  const auto cut_credit = [&](std::uint32_t& credit) {
    credit = std::min(credit, prompt_count_ + tokens_);
  };
  if (auto* prefill = std::get_if<wire::OutgoingPrefill>(&request)) {
    note_request(prefill->text, prefill->activations_from);
    cut_credit(prefill->run.credit);
  } else if (auto* resume = std::get_if<wire::OutgoingResume>(&request)) {
    note_request(resume->text, resume->activations_from);
    cut_credit(resume->run.credit);
  } else if (auto* hints = std::get_if<wire::OutgoingHints>(&request)) {
    cut_credit(hints->credit);
  }
  return link_->send(std::move(request));
}

void CutLink::note_request(const SafePrefix& text, std::uint32_t activations_from) {
  if (prompt_count_ == 0) prompt_count_ = text.base_count() + text.count();
  activations_from_ = activations_from;
}

Result<void> CutLink::pass_on(wire::OutgoingDraft draft) {
  draft_.assign(draft.tree.tokens().begin(), draft.tree.tokens().end());
  draft.stream_tokens = std::min(draft.stream_tokens, tokens_ - brought_count_);
  return link_->send(std::move(draft));
}

Result<ClientEvent> CutLink::wait_event(Instant deadline) {
  if (state() == LinkState::closed && !rows_pending_) return Error{Errc::cancelled, why_};
  auto event = link_->wait_event(deadline);
  if (!event) return event;
  if (const auto* welcomed = std::get_if<Welcomed>(&*event)) {
    const auto& groups = welcomed->welcome.scale_groups;
    activation_cols_ = std::accumulate(groups.begin(), groups.end(), 0u);
    newest_row_ = welcomed->welcome.newest_row;
  } else if (const auto* rows = std::get_if<ActivationsReceived>(&*event)) {
    if (rows->complete) rows_pending_ = false;
  } else if (auto* verdict = std::get_if<VerdictReceived>(&*event)) {
    take(*verdict);
  }
  return event;
}

void CutLink::take(VerdictReceived& event) {
  wire::Verdict& verdict = event.verdict;
  brought_count_ = verdict.length - std::min(verdict.length, prompt_count_);
  if (event.to == VerdictReceived::To::run) return;
  if (event.to != VerdictReceived::To::draft) {
    rows_pending_ = activation_cols_ > 0 && activations_from_ + 1 < verdict.length;
  } else if (brought_count_ > tokens_) {
    drop_last(event, brought_count_ - tokens_);
  }
}

// As if the target had chosen the last token that stays by itself. Streams and runs never bring too
// many: they were asked for no more.
void CutLink::drop_last(VerdictReceived& event, std::uint32_t count) const {
  wire::Verdict& verdict = event.verdict;
  const std::size_t left = verdict.path.size() + 1 - count;
  event.rows.resize(newest_row_ ? 0 : left * activation_cols_);
  verdict.next = draft_[verdict.path[left - 1] - 1];
  verdict.path.resize(left - 1);
  verdict.length -= count;
  verdict.ending = wire::Ending::none;
}

}  // namespace edgedraft
