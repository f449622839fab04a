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

namespace edgedraft {

// The tokens of a conversation and the drafter that is bound to it: whatever the one holds, the
// other does, and nothing else feeds that drafter. So a tree that it grew depends on nothing but
// the ledger's tokens, and may leave the device where these may.
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

  // Leading tokens that are beyond doubt: given, verified, or kept. Behind them stands what was
  // written offline and awaits the server.
  std::uint32_t settled_count() const { return settled_count_; }
  void settle() { settled_count_ = count(); }
  // The server chose the first `count` of the others as well.
  void confirm(std::uint32_t count) { ledger_.confirm(settled_count_, count); }

  // The answer begins behind the tokens so far, which are beyond doubt.
  void begin_answer() {
    settle();
    answer_first_ = count();
  }
  std::uint32_t answer_first() const { return answer_first_; }
  std::span<const std::uint32_t> answer() const { return tokens().subspan(answer_first_); }
  std::uint32_t answer_count() const { return count() - answer_first_; }

  // What may be sent of it. Requires  no private token among these
  SafePrefix prefix(std::uint32_t base_count, std::uint32_t count) const {
    return SafePrefix(ledger_, base_count, count);
  }
  // `nodes` are of a tree that the bound drafter has grown. Requires  no private token
  SafeHints hints(std::vector<HintNode> nodes) const {
    return SafeHints(ledger_, std::move(nodes));
  }

 private:
  TaintLedger ledger_;
  Drafter* drafter_;
  std::uint32_t answer_first_ = 0;
  std::uint32_t settled_count_ = 0;
};

}  // namespace edgedraft
