#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "server/load/running_cost.h"
#include "server/metrics/metrics.h"
#include "server/passes/hint_selection.h"
#include "server/passes/request.h"
#include "server/proposers/speculation.h"
#include "server/sessions/session_store.h"
#include "shared/base/clock.h"

namespace edgedraft {

// Makes the trees of runs for their next passes: of their clients' hints, and of the server's own
// drafts beside or instead of them.
//
// Errors    throws if the session contradicts itself or the device fails; the caller gives the
//           session up
// Threads   one
class PassTrees {
 public:
  struct Parts {
    Speculation* speculation;  // null: the server does not draft
    Economy economy;
    std::uint32_t rows_max;  // of one session's tree
    const std::list<RunTurn>& runs;
    const CostCurve& costs;
    SessionStore& sessions;
    std::shared_ptr<Metrics> metrics;
    std::function<Instant()> now;
  };
  // Requires  the references outlive it
  explicit PassTrees(const Parts& parts) : parts_(parts) {}

  // Whether the server's guesses stand beside hints.
  bool joins_hints() const {
    return parts_.speculation != nullptr && parts_.speculation->joins_hints();
  }
  // Begins the run's next pass, for its root alone until choose().
  void begin_step(RunTurn& turn);
  // Makes the guesses that stand beside the run's hints, once per step.
  void guess_beside_hints(RunTurn& turn);
  RunOffer offer(const RunTurn& turn, Instant now) const;
  // The expected tree of the server's own for this run or another; nothing if it is unknown.
  std::optional<SpeculationBudget::Tree> gap_tree(const RunTurn& turn) const;
  // Begins the next pass with the likeliest `count` hints and guesses, or with a tree of the
  // server's own if there are none.
  void choose(RunTurn& turn, std::uint32_t count);
  // Begins it with the complete hints of a run under lockstep.
  void choose_complete(RunTurn& turn);

 private:
  // Sessions whose runs the server may draft for, this one among them: they share the passes.
  // Those that are paused want nothing of passes.
  std::uint32_t drafted_sessions(const RunTurn& turn) const;
  // Drafts for the run's next pass; nothing if the server does not draft.
  Drafted own_draft(RunTurn& turn, bool weighed_by_caller);

  Parts parts_;
};

}  // namespace edgedraft
