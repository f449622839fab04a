#pragma once

#include <cstdint>

#include "server/sessions/target_session.h"
#include "shared/speculative/draft_tree.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft::server {

// A proposer's input to its session's next pass: guesses, verified like client drafts, and probes,
// whose answer the session holds at the next call.
struct Proposal {
  DraftTree tree{};
  Probes probes{};
};

struct ProposalLimits {
  TreeShape tree{};              // valid(), or without nodes for no tree
  std::uint32_t probe_rows = 0;  // upper limit
};

// Proposes tokens on the server for one session. It follows the session's tokens, so it may be
// dropped and recreated at any time.
class SessionProposer {
 public:
  virtual ~SessionProposer() = default;

  // Proposal below the session's root; empty if it has none. Throws DeviceError.
  //
  // Requires  the session has a root and no request
  virtual Proposal propose(const TargetSession& session, const ProposalLimits& limits) = 0;
};

}  // namespace edgedraft::server
