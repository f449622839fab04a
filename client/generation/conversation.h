#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "shared/drafting/drafter.h"
#include "shared/privacy/safe_hints.h"
#include "shared/privacy/safe_prefix.h"
#include "shared/privacy/taint_ledger.h"

namespace edgedraft::client {

// A conversation's tokens and the drafter bound to them. Both always hold the same tokens, and the
// drafter has no other input but an answer's prediction. A tree that it grows thus depends only on
// these, and may leave the device if they may.
class Conversation {
 public:
  // `drafter` may be null and outlives the conversation.
  explicit Conversation(Drafter* drafter) : drafter_(drafter) {}

  const TaintLedger& ledger() const { return ledger_; }
  std::span<const std::uint32_t> tokens() const { return ledger_.tokens(); }
  std::uint32_t count() const { return ledger_.count(); }

  void append(std::span<const std::uint32_t> tokens, Provenance provenance) {
    for (const std::uint32_t token : tokens) ledger_.append(token, provenance);
    if (drafter_) drafter_->append(tokens);
  }
  void truncate(std::uint32_t count) {
    ledger_.truncate(count);
    if (drafter_) drafter_->truncate(count);
    settled_count_ = std::min(settled_count_, count);
  }

  // Leading tokens that are final: given, verified, or kept. Tokens after them were written offline
  // and await the server.
  std::uint32_t settled_count() const { return settled_count_; }
  void settle() { settled_count_ = count(); }
  // Confirms that the server chose the next `count` tokens as well.
  void confirm(std::uint32_t count) { ledger_.confirm(settled_count_, count); }

  // Begins the answer after the current tokens, which become final. It may be much like
  // `prediction`, which may leave the device as the tokens may.
  void begin_answer(std::vector<std::uint32_t> prediction = {}) {
    settle();
    answer_first_ = count();
    if (drafter_) drafter_->predict(std::move(prediction));
  }
  std::uint32_t answer_first() const { return answer_first_; }
  std::span<const std::uint32_t> answer() const { return tokens().subspan(answer_first_); }
  std::uint32_t answer_count() const { return count() - answer_first_; }

  // A part that may be sent. Requires  no private token in it
  SafePrefix prefix(std::uint32_t base_count, std::uint32_t count) const {
    return SafePrefix(ledger_, base_count, count);
  }
  // `nodes` must come from a tree that the bound drafter has grown. Requires  no private token
  SafeHints hints(std::vector<HintNode> nodes) const {
    return SafeHints(ledger_, std::move(nodes));
  }

 private:
  TaintLedger ledger_;
  Drafter* drafter_;
  std::uint32_t answer_first_ = 0;
  std::uint32_t settled_count_ = 0;
};

}  // namespace edgedraft::client
