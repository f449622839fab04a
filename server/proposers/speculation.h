#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/proposers/probe_budget.h"
#include "server/proposers/speculation_budget.h"
#include "server/sessions/session_proposer.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/tap.h"
#include "shared/runtime/backend.h"

namespace edgedraft::server {

// The server's own draft for a pass, and the time it took.
struct Drafted {
  DraftTree tree{};
  Probes probes{};
  Duration time{};
};

struct SpeculationOptions {
  TreeShape tree{};             // the largest
  std::uint32_t context_count;  // session's token limit
  // Wraps each new proposer. Empty: no wrapper.
  std::function<std::unique_ptr<SessionProposer>(std::unique_ptr<SessionProposer>)> decorate{};
  // Called with the reason if a drafter cannot be created or fails; its session streams without
  // drafts.
  std::function<void(const std::string& why)> on_failure = [](const std::string&) {};
  std::function<Instant()> now = [] { return Clock::now(); };
};

// Creates proposers for sessions.
struct ProposerSource {
  // `count` counts live proposers. Throws DeviceError.
  std::function<std::unique_ptr<SessionProposer>(std::shared_ptr<std::uint32_t> count)> make;
  std::uint64_t session_bytes;  // per session, without the shared weights
  // Probe rows a session can use per pass.
  std::uint32_t probe_rows = 0;
  // Its guesses cost almost nothing, so they join the device's hints; other proposers run only
  // without hints.
  bool joins_hints = false;
};

// Drafters as proposers, with a tap for their activations; null if they need tokens only.
//
// Requires  backend and tap outlive the source
// Throws DeviceError if there is no memory for the drafter's weights.
ProposerSource drafter_source(Backend& backend, const DrafterModel& drafter, Tap* tap,
                              std::uint32_t context_count);

// Drafts on the server for streaming sessions, with shared drafter weights and memory per session.
// SpeculationBudget sizes the trees, ProbeBudget the probes.
//
// Threads   the compute thread
class Speculation {
 public:
  Speculation(ProposerSource source, const SpeculationOptions& options);

  struct Step {
    std::uint32_t tokens_left;  // left in the stream, at least 1
    std::uint32_t sessions;     // streaming sessions
    // Pass costs, and the row limit per session.
    const CostCurve& costs;
    std::uint32_t rows_max;
    // The caller selects the tree's nodes among others, so the tree gets its full size.
    bool weighed_by_caller = false;
    // Called if a proposer does not fit the memory share; returns true if another session gave up
    // its own. Empty: none does.
    std::function<bool()> make_room{};
  };
  // Draft for the session's next pass: a tree of at most tokens_left - 1 levels, empty to decode
  // without drafts, and probes. `proposer` is the session's, created here if it has none and memory
  // allows.
  //
  // Requires  a session with a root and no request
  Drafted draft(const TargetSession& session, std::unique_ptr<SessionProposer>& proposer,
                const Step& step);

  void observe_pass(Duration time) { budget_.observe_pass(time); }
  // Gain of a tree of `rows` rows, root included; 1 row: no tree.
  void observe_draft(std::uint32_t rows, std::uint32_t tokens) {
    if (rows > 1) budget_.observe_draft(rows, tokens);
  }
  // Outcome of a session's share of a pass, for any drafter.
  void observe_outcome(const ProbeBudget::Outcome& outcome) { probe_budget_.observe(outcome); }
  bool joins_hints() const { return source_.joins_hints; }
  // Expected tree per session at this number of drafted sessions; empty until enough were seen.
  std::optional<SpeculationBudget::Tree> expected_tree(std::uint32_t sessions,
                                                       const CostCurve& costs) const {
    return budget_.expected_tree(sessions, costs);
  }

  // Takes a share of the KV memory so that drafters fit for all sessions of `target_bytes`, and
  // returns the rest.
  // Errors    usage  a session and its drafter do not fit
  Result<std::uint64_t> take_part_of(std::uint64_t kv_bytes, std::uint64_t target_bytes);
  // Bytes of all proposers, and per proposer; weights excluded.
  std::uint64_t bytes() const { return *count_ * source_.session_bytes; }
  std::uint64_t session_bytes() const { return source_.session_bytes; }
  // True if another proposer would exceed the share.
  bool full() const { return bytes_max_ && bytes() + session_bytes() > *bytes_max_; }
  // True if a session with this proposer is drafted for, or would be.
  bool drafts_with(const std::unique_ptr<SessionProposer>& proposer) const {
    return proposer || (!full() && options_.now() >= make_again_);
  }

 private:
  Proposal propose(const TargetSession& session, std::unique_ptr<SessionProposer>& proposer,
                   const ProposalLimits& limits);

  ProposerSource source_;
  SpeculationOptions options_;
  SpeculationBudget budget_;
  ProbeBudget probe_budget_;
  std::optional<std::uint64_t> bytes_max_;  // for all proposers, without their weights
  std::shared_ptr<std::uint32_t> count_ = std::make_shared<std::uint32_t>(0);
  Instant make_again_{};  // earliest retry after running out of memory
};

}  // namespace edgedraft::server
