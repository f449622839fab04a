#include "client/receipts/answer_check.h"

#include <span>
#include <string>
#include <utility>

namespace edgedraft::client {
namespace {

// Waits for an event of type `Wanted` and skips the others.
template <class Wanted>
Result<Wanted> wait_for(TargetLink& link, Duration patience) {
  for (;;) {
    Result<ClientEvent> event = link.wait_event(Clock::now() + patience);
    if (!event) return event.error();
    if (auto* wanted = std::get_if<Wanted>(&*event)) return std::move(*wanted);
    if (const auto* refused = std::get_if<RequestRefused>(&*event)) return refused->error;
  }
}

}  // namespace

Result<CheckedAnswer> check_answer(TargetLink& link, const Receipt& receipt, bool signs,
                                   Duration patience) {
  link.start_connecting();
  auto welcomed = wait_for<Welcomed>(link, patience);
  if (!welcomed) return welcomed.error();
  // The server chooses the last token itself.
  const std::span<const std::uint32_t> checked =
      std::span(receipt.answer).first(receipt.answer.size() - 1);
  TaintLedger ledger;
  for (const std::uint32_t token : receipt.prompt) ledger.append(token, Provenance::given);
  for (const std::uint32_t token : checked) ledger.append(token, Provenance::offline);
  wire::OutgoingPrefill request{.text = SafePrefix(ledger, 0, ledger.count()),
                                .provisional_count = static_cast<std::uint32_t>(checked.size()),
                                .policy = wire::ResyncPolicy::check,
                                .activations_from = ledger.count(),
                                .parameters = SafeParameters(receipt.sampling, receipt.constraints),
                                .receipt = signs};
  if (auto sent = link.send(std::move(request)); !sent) return sent.error();
  auto answered = wait_for<VerdictReceived>(link, patience);
  if (!answered) return answered.error();
  const wire::Verdict& verdict = answered->verdict;
  CheckedAnswer outcome{.welcome = std::move(welcomed->welcome),
                        .signature = verdict.receipt,
                        .certificate = answered->certificate};
  const std::uint32_t index = verdict.accepted_count;
  if (index != checked.size() || verdict.next != receipt.answer.back()) {
    outcome.difference = Difference{.index = index, .chosen = verdict.next};
  }
  return outcome;
}

Result<void> sign_answer(TargetLink& link, Receipt& receipt, Duration patience) {
  auto checked = check_answer(link, receipt, true, patience);
  if (!checked) return checked.error();
  if (checked->difference) {
    return Error{Errc::mismatch, "the server signs no receipt: it chooses another token at " +
                                     std::to_string(checked->difference->index + 1) +
                                     " of the answer"};
  }
  if (checked->signature.empty() || checked->certificate.empty() || !checked->welcome.target) {
    return Error{Errc::unsupported,
                 "the server gives no receipts: update edgedraft-server, or do without --receipt"};
  }
  receipt.target = *checked->welcome.target;
  receipt.arithmetic = checked->welcome.arithmetic;
  receipt.provenance = attested_answer(receipt.answer.size() - 1);
  receipt.certificate = std::move(checked->certificate);
  receipt.signature = std::move(checked->signature);
  return {};
}

}  // namespace edgedraft::client
