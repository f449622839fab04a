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

namespace edgedraft {

// What the server itself has for a pass, and how long that took to make.
struct Drafted {
  DraftTree tree{};
  Probes probes{};
  Duration time{};
};

struct SpeculationOptions {
  TreeShape tree{};             // the largest
  std::uint32_t context_count;  // tokens that a session can hold
  // Wraps each proposer that is made. Empty: none is wrapped.
  std::function<std::unique_ptr<SessionProposer>(std::unique_ptr<SessionProposer>)> decorate{};
  // Told why a drafter could not be made or failed; its session streams plainly.
  std::function<void(const std::string& why)> on_failure = [](const std::string&) {};
  std::function<Instant()> now = [] { return Clock::now(); };
};

// Where sessions' proposers come from.
struct ProposerSource {
  // `count` is of all proposers alive. Throws DeviceError.
  std::function<std::unique_ptr<SessionProposer>(std::shared_ptr<std::uint32_t> count)> make;
  std::uint64_t session_bytes;  // of one session's; the weights, which all share, are not in it
  // Probes that a session's pass has use for.
  std::uint32_t probe_rows = 0;
  // Its guesses cost next to nothing to make, so that they stand beside a device's hints; others
  // are made where there are no hints.
  bool joins_hints = false;
};

// Proposers that are drafters, with a tap that reads what they are sent; null if tokens are all
// that they need.
//
// Requires  backend and tap outlive the source
// Throws DeviceError if the drafter's weights find no memory.
ProposerSource drafter_source(Backend& backend, const DrafterModel& drafter, Tap* tap,
                              std::uint32_t context_count);

// Drafts beside the target for sessions that stream: one drafter's weights, a memory for each
// session. Trees are as large as pays (SpeculationBudget), and probes are made if they do
// (ProbeBudget).
//
// Threads   the compute thread alone
class Speculation {
 public:
  Speculation(ProposerSource source, const SpeculationOptions& options);

  struct Step {
    std::uint32_t tokens_left;  // of the stream, 1 at least
    std::uint32_t sessions;     // that stream
    // What passes cost, and rows of them that one session may have.
    const CostCurve& costs;
    std::uint32_t rows_max;
    // The caller weighs the tree's nodes by itself, beside others: it is as large as it gets.
    bool weighed_by_caller = false;
    // Asked where the session wants a proposer and the part of memory leaves no room for one:
    // whether another session has given its own up. Empty: none does.
    std::function<bool()> make_room{};
  };
  // What there is for the session's next pass: a tree of at most tokens_left - 1 levels, empty if
  // it goes on plainly, and probes. `proposer` is the session's, made here if there is none but
  // memory for one.
  //
  // Requires  a session with a root and no request
  Drafted draft(const TargetSession& session, std::unique_ptr<SessionProposer>& proposer,
                const Step& step);

  void observe_pass(std::uint32_t rows, Duration time) { budget_.observe_pass(rows, time); }
  // What a tree of so many rows, root included, brought; 1 row is no tree.
  void observe_draft(std::uint32_t rows, std::uint32_t tokens) {
    if (rows > 1) budget_.observe_draft(rows, tokens);
  }
  // What a session's part in a pass brought, whoever drafted for it.
  void observe_outcome(const ProbeBudget::Outcome& outcome) { probe_budget_.observe(outcome); }
  bool joins_hints() const { return source_.joins_hints; }
  // What the tree of a session is expected to be, while so many draft; nothing until enough were
  // seen.
  std::optional<SpeculationBudget::Tree> expected_tree(std::uint32_t sessions) const {
    return budget_.expected_tree(sessions);
  }

  // Takes a part of the memory for keys and values, such that as many drafters fit as sessions of
  // `target_bytes`, and returns what is left for these.
  // Errors    usage  a session and its drafter do not fit
  Result<std::uint64_t> take_part_of(std::uint64_t kv_bytes, std::uint64_t target_bytes);
  // The bytes of all sessions' proposers, and of one; the weights are not in them.
  std::uint64_t bytes() const { return *count_ * source_.session_bytes; }
  std::uint64_t session_bytes() const { return source_.session_bytes; }
  // Whether another session's proposer would exceed that part.
  bool full() const { return bytes_max_ && bytes() + session_bytes() > *bytes_max_; }
  // Whether a session that has this one is drafted for, or would be.
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
  std::optional<std::uint64_t> bytes_max_;  // for all proposers together, without their weights
  std::shared_ptr<std::uint32_t> count_ = std::make_shared<std::uint32_t>(0);
  Instant make_again_{};  // not before: there was no memory
};

}  // namespace edgedraft
