#pragma once

#include "server/sessions/target_session.h"
#include "shared/speculative/draft_tree.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// What proposes tokens beside the target for one session. It follows the session wherever that
// goes, so it may be dropped and made again at any time.
class SessionProposer {
 public:
  virtual ~SessionProposer() = default;

  // A tree below the session's root; empty if it has none to propose. Throws DeviceError.
  //
  // Requires  valid(shape); the session has a root and no request
  virtual DraftTree propose(const TargetSession& session, const TreeShape& shape) = 0;
};

}  // namespace edgedraft
