#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "server/metrics/metrics.h"
#include "server/passes/request.h"
#include "server/proposers/probe_budget.h"
#include "server/proposers/speculation.h"
#include "server/sessions/session_store.h"
#include "server/sessions/target_session.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/protocol/message.h"

namespace edgedraft {

// Sends clients their answers: verdicts, the rows of runs, prompts' rows in chunks, refusals.
//
// Threads   one
class Delivery {
 public:
  struct Parts {
    Speculation* speculation;  // null: the server does not draft
    std::shared_ptr<Metrics> metrics;
    std::function<Instant()> now;
  };
  // Requires  the references outlive it
  explicit Delivery(const Parts& parts) : parts_(parts) {}

  // The outcome of a pass that ended at `finished`. Returns the run that follows a prompt, or
  // whether a run goes on. Throws DeviceError; the session has then gone on, its client has not.
  //
  // Requires  the turn has started
  std::optional<RunTurn> answer(PromptTurn& prompt, const Outcome& outcome, Instant finished);
  bool answer(RunTurn& turn, const Outcome& outcome, Instant finished);
  // Never throws: what has failed already may have left little memory.
  void refuse(const Client& client, std::uint32_t round, Refusal why, Error error);

  // Sends one chunk of the rows that prompts still owe, clients that read taking turns, so that a
  // long prompt delays no verdict. Throws DeviceError; that client's drafter then goes without the
  // rest.
  void send_owed_rows(SessionStore& sessions);
  // Rows that their client has room for.
  bool owes_rows() const;
  // Drops rows that are no longer wanted.
  void drop_rows(std::uint64_t connection_id);

 private:
  // Rows that a client still has to get: [first, end), newest chunks first.
  struct RowsOwed {
    Client client;
    std::uint32_t round;
    std::uint32_t first;
    std::uint32_t end;

    bool waits() const { return client.reply->full_of_chunks(); }
  };

  // Counts the times of a turn. Returns its verdict, without what the pass chose.
  wire::Verdict verdict_of(const Request& turn, Instant finished);
  // What the server's own guesses brought. Requires  parts_.speculation
  void observe(const ProbeBudget::Outcome& outcome);
  Bytes new_rows(const Request& turn, std::uint32_t first, std::uint32_t count) const;

  Parts parts_;
  std::deque<RowsOwed> owed_;
};

}  // namespace edgedraft
