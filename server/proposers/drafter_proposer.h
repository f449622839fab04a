#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "server/sessions/session_proposer.h"
#include "shared/drafting/drafter.h"
#include "shared/drafting/tap.h"

namespace edgedraft::server {

// Runs a client's kind of drafter on the server. Its tap reads the target's keys and values
// directly, so activations are not quantized.
class DrafterProposer final : public SessionProposer {
 public:
  struct Parts {
    std::unique_ptr<Drafter> drafter;      // without tokens
    Tap* tap;                              // null for a drafter that needs tokens only
    std::uint32_t positions_max;           // context limit of the drafter
    std::shared_ptr<std::uint32_t> count;  // live proposers, this one included; may be null
  };
  // Requires  the tap outlives it
  explicit DrafterProposer(Parts parts);
  ~DrafterProposer() override;
  DrafterProposer(const DrafterProposer&) = delete;
  DrafterProposer& operator=(const DrafterProposer&) = delete;

  Proposal propose(const TargetSession& session, const ProposalLimits& limits) override;

 private:
  void follow(std::span<const std::uint32_t> tokens);
  void read_activations(const TargetSession& session);
  void read_rows(const TargetSession& session, std::uint32_t first, std::uint32_t end);

  Parts parts_;
  std::vector<std::uint32_t> tokens_;  // the drafter's
  // Positions whose activations the drafter has. Starts at the newest rows; each tree adds some
  // older ones.
  std::uint32_t rows_first_ = 0;
  std::uint32_t rows_end_ = 0;
  std::vector<float> rows_;
};

}  // namespace edgedraft::server
