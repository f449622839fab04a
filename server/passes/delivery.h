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

namespace edgedraft::server {

// Sends answers to clients: verdicts, activations of runs, chunked activations of prompts,
// refusals.
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

  // Delivers the outcome of a pass that ended at `finished`. Returns the run that follows a prompt,
  // or whether a run continues. Throws DeviceError; the session has then advanced and its client
  // has not.
  //
  // Requires  the turn has started
  std::optional<RunTurn> answer(PromptTurn& prompt, const Outcome& outcome, Instant finished);
  bool answer(RunTurn& turn, const Outcome& outcome, Instant finished);
  // Reports that a pass ran a part of the prompt, at most every 200 ms.
  void reading(PromptTurn& prompt, Instant finished);
  // Never throws: it may run after an allocation failure.
  void refuse(const Client& client, std::uint32_t round, Refusal why, Error error);

  // Sends one chunk of owed prompt activations, round-robin over clients that read, so that a long
  // prompt delays no verdict. Throws DeviceError; that client's drafter then misses the rest.
  void send_owed_rows(SessionStore& sessions);
  // True if a client has room for owed activations.
  bool owes_rows() const;
  // Drops owed activations.
  void drop_rows(std::uint64_t connection_id);

 private:
  // Activations still owed: [first, end), newest chunks first.
  struct RowsOwed {
    Client client;
    std::uint32_t round;
    std::uint32_t first;
    std::uint32_t end;

    bool waits() const { return client.reply->full_of_chunks(); }
  };

  // Records the turn's times and returns its verdict without the chosen tokens.
  wire::Verdict verdict_of(const Request& turn, Instant finished);
  // Records what the server's own guesses gained.
  // Requires  parts_.speculation
  void observe(const ProbeBudget::Outcome& outcome);
  Bytes new_rows(const Request& turn, std::uint32_t first, std::uint32_t count) const;

  Parts parts_;
  std::deque<RowsOwed> owed_;
};

}  // namespace edgedraft::server
