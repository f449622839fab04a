#pragma once

#include <memory>
#include <utility>

#include "netsim/lab/paced_drafter.h"
#include "server/sessions/session_proposer.h"

namespace edgedraft::lab {

// A proposer with paced trees: `step` per level of the largest allowed tree.
class PacedProposer final : public server::SessionProposer {
 public:
  PacedProposer(std::unique_ptr<server::SessionProposer> proposer, Duration step,
                PaceClock clock = {})
      : proposer_(std::move(proposer)), step_(step), clock_(std::move(clock)) {}

  server::Proposal propose(const server::TargetSession& session,
                           const server::ProposalLimits& limits) override {
    const Instant started = clock_.now();
    server::Proposal proposal = proposer_->propose(session, limits);
    if (!proposal.tree.empty()) clock_.keep(started, step_ * limits.tree.depth);
    return proposal;
  }

 private:
  std::unique_ptr<server::SessionProposer> proposer_;
  Duration step_;
  PaceClock clock_;
};

}  // namespace edgedraft::lab
