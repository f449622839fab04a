#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "server/metrics/metrics.h"
#include "server/passes/hint_selection.h"
#include "server/passes/request.h"
#include "server/proposers/speculation.h"
#include "server/sessions/session_store.h"
#include "shared/base/clock.h"
#include "shared/forecast/cost_curve.h"

namespace edgedraft::server {

// Builds the runs' trees for the next pass from client hints and the server's own drafts.
//
// Errors    throws if the session is inconsistent or the device fails; the caller drops the session
// Threads   one
class PassTrees {
 public:
  struct Parts {
    Speculation* speculation;  // null: the server does not draft
    Economy economy;
    std::uint32_t rows_max;  // per session's tree
    const std::list<RunTurn>& runs;
    const CostCurve& costs;
    SessionStore& sessions;
    std::shared_ptr<Metrics> metrics;
    std::function<Instant()> now;
  };
  // Requires  the references outlive it
  explicit PassTrees(const Parts& parts) : parts_(parts) {}

  // True if the server adds its guesses to hints.
  bool joins_hints() const {
    return parts_.speculation != nullptr && parts_.speculation->joins_hints();
  }
  // Starts the run's next step with the root alone, until choose().
  void begin_step(RunTurn& turn);
  // Makes the guesses that join the run's hints, once per step.
  void guess_beside_hints(RunTurn& turn);
  RunOffer offer(const RunTurn& turn, Instant now) const;
  // Expected server-drafted tree for a run without hints; empty if unknown.
  std::optional<SpeculationBudget::Tree> gap_tree(const RunTurn& turn) const;
  // Starts the next pass with the `count` likeliest hints and guesses, or with a server-drafted
  // tree if there are none.
  void choose(RunTurn& turn, std::uint32_t count);
  // Starts it with all complete hints of a lockstep run.
  void choose_complete(RunTurn& turn);

 private:
  // Sessions the server may draft for, this one included; paused ones are not counted.
  std::uint32_t drafted_sessions(const RunTurn& turn) const;
  // Drafts for the run's next pass; empty if the server does not draft.
  Drafted own_draft(RunTurn& turn, bool weighed_by_caller);

  Parts parts_;
};

}  // namespace edgedraft::server
