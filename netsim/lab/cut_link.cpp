#include "netsim/lab/cut_link.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft::lab {

CutLink::CutLink(std::unique_ptr<TargetLink> link, std::uint32_t tokens, std::string why)
    : link_(std::move(link)), tokens_(tokens), why_(std::move(why)) {
  EDGEDRAFT_CHECK(tokens > 0);
}

LinkState CutLink::state() const {
  return brought_count_ < tokens_ ? link_->state() : LinkState::closed;
}

Result<void> CutLink::send(TargetRequest request) {
  if (state() == LinkState::closed) return Error{Errc::link_down, why_};
  // Limits credit to the cut, so that a run sends no more tokens.
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

Result<ClientEvent> CutLink::wait_event(Instant deadline) {
  if (state() == LinkState::closed && !rows_pending_) return Error{Errc::cancelled, why_};
  auto event = link_->wait_event(deadline);
  if (!event) return event;
  if (const auto* welcomed = std::get_if<Welcomed>(&*event)) {
    const auto& groups = welcomed->welcome.scale_groups;
    activation_cols_ = std::accumulate(groups.begin(), groups.end(), 0u);
  } else if (const auto* rows = std::get_if<ActivationsReceived>(&*event)) {
    if (rows->complete) rows_pending_ = false;
  } else if (const auto* verdict = std::get_if<VerdictReceived>(&*event)) {
    take(*verdict);
  }
  return event;
}

void CutLink::take(const VerdictReceived& event) {
  const wire::Verdict& verdict = event.verdict;
  brought_count_ = verdict.length - std::min(verdict.length, prompt_count_);
  if (event.to == VerdictReceived::To::run) return;
  rows_pending_ = activation_cols_ > 0 && activations_from_ + 1 < verdict.length;
}

}  // namespace edgedraft::lab
