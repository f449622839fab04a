#pragma once

#include <cstdint>

#include "server/sessions/target_session.h"
#include "shared/speculative/draft_tree.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// What a proposer adds to its session's next pass: guesses, which are verified like a device's, and
// probes, whose answer it finds in the session when it is asked again.
struct Proposal {
  DraftTree tree{};
  Probes probes{};
};

struct ProposalLimits {
  TreeShape tree{};              // valid(), or no nodes at all: no tree is wanted
  std::uint32_t probe_rows = 0;  // at most
};

// What proposes tokens beside the target for one session. It follows the session wherever that
// goes, so it may be dropped and made again at any time.
class SessionProposer {
 public:
  virtual ~SessionProposer() = default;

  // What it has to propose below the session's root; nothing if it has none. Throws DeviceError.
  //
  // Requires  the session has a root and no request
  virtual Proposal propose(const TargetSession& session, const ProposalLimits& limits) = 0;
};

}  // namespace edgedraft
